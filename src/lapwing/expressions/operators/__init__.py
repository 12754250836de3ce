"""The operators an expression may use, by kind."""

__all__: list[str] = []
