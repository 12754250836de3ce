"""What an expression may contain and what it means on every row; and the tables that the steward declares."""

__all__: list[str] = []
