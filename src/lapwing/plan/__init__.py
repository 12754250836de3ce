"""What is measured, what one unit may add, price and noise, and the engine's query: all before rows are read."""

__all__: list[str] = []
