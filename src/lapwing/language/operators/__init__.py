"""The operators that may stand in an expression, by kind."""

__all__: list[str] = []
