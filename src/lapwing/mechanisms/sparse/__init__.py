"""The sparse vector technique."""

__all__: list[str] = []
