"""From a question to a noisy table."""

__all__: list[str] = []
