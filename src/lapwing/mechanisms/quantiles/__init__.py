"""Quantiles, and bounds found privately."""

__all__: list[str] = []
