"""Many counts from one strategy: distributions and marginals."""

__all__: list[str] = []
