"""Means, variances, correlation and regression from soft histograms."""

__all__: list[str] = []
