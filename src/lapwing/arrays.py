"""The numpy arrays that rooms exchange, by the type of their entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Array = npt.NDArray[Any]
"""Of any type."""
