"""Noise that is added: Laplace and Gaussian, how they are calibrated, and their tails."""

__all__: list[str] = []
