"""`lapwing serve`: people who do not trust each other ask one curator over HTTP."""

__all__: list[str] = []
