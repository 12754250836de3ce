"""Local sensitivity: smooth sensitivity, propose-test-release."""

__all__: list[str] = []
