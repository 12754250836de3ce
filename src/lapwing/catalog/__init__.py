"""What a steward declares: tables, columns, limits, and tables derived from them."""

__all__: list[str] = []
