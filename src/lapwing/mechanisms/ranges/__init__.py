"""Ranges, prefix sums and marginals from one strategy."""

__all__: list[str] = []
