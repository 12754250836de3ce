"""The expression language: what an expression may contain, and what it means on every row."""

__all__: list[str] = []
