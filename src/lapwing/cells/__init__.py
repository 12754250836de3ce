"""From a plan to the engine's query for clipped integers, and the noise on them."""

__all__: list[str] = []
