"""Means, variances, correlation and regression."""

__all__: list[str] = []
