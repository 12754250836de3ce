"""What a steward declares: tables, columns and limits; and the tables derived from them."""

__all__: list[str] = []
