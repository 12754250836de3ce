"""lapwing.mechanisms.cells."""

from __future__ import annotations

import numpy as np

from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.cells import NoisyCells


def test_every_cell_has_noise_of_its_own() -> None:
    """One noise for all would make differences of groups exact. At this scale 200 draws agree this often never."""
    zeros = np.zeros(200, np.int64)
    for noise in (Laplace(epsilon=0.01), Gaussian(rho=0.00005)):
        first, second = NoisyCells(noise).release((zeros, zeros), 200)
        assert len(set(first.tolist())) > 50
        assert len(set((first - second).tolist())) > 50
