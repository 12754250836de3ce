"""Exact privacy profiles, privacy-loss distributions and the composition of a fixed list of mechanisms."""

__all__: list[str] = []
