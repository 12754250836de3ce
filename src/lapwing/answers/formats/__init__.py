"""How an answer is shown or handed on: one file a format, each a function of the answer table."""

__all__: list[str] = []
