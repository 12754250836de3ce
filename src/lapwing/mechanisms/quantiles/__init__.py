"""Quantiles, and bounds that are found privately."""

__all__: list[str] = []
