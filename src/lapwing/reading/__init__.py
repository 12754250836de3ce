"""From SQL or Ibis to a question."""

__all__: list[str] = []
