"""Choosing one of many: exponential mechanism, permute-and-flip, noisy max, top-k, randomized response."""

__all__: list[str] = []
