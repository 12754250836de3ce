"""What is measured: the aggregates, what one unit adds to them, and their noise."""

__all__: list[str] = []
