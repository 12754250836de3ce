"""From noisy cells to what an analyst sees, keeps and plots."""

__all__: list[str] = []
