"""Which keys may be shown when the list of keys is private."""

__all__: list[str] = []
