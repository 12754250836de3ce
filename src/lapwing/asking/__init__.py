"""On which terms a question is asked: its price or precision, what is found first, several at once, a session."""

__all__: list[str] = []
