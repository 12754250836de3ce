"""What may stand in an expression, and what it means on every row."""

__all__: list[str] = []
