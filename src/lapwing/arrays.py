"""The numpy arrays that rooms exchange, by the type of their entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Array = npt.NDArray[Any]
"""Of any type."""


def frozen(array: Array) -> Array:
    """The same array, read-only from now on."""
    array.flags.writeable = False
    return array


def objects(values: Sequence[Any]) -> Array:
    """The values in an array, each as it is."""
    array = np.empty(len(values), object)
    array[:] = values
    return array
