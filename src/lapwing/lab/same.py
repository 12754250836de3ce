"""Whether two results are the same to anyone who sees them: types, order, NaN and all."""

from __future__ import annotations

from typing import Any

import numpy as np


def same(left: Any, right: Any) -> bool:
    """Equal in type and value; 1, 1.0 and True are three values, and so are two orders of keys."""
    if type(left) is not type(right):
        return False
    if isinstance(left, BaseException):
        return str(left) == str(right)
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and same(left.tolist(), right.tolist())
    if isinstance(left, float | np.floating):
        return repr(left) == repr(right)
    if hasattr(left, "equals"):
        return bool(left.equals(right))
    found = left == right
    return found if isinstance(found, bool) else repr(left) == repr(right)
