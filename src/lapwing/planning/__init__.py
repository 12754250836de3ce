"""What one unit may add, and what a question loses: everything that is decided before rows are read."""

__all__: list[str] = []
