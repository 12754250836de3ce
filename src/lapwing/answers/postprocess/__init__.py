"""What is computed from released tables: a function of them and of a tree of steps, and free."""

__all__: list[str] = []
