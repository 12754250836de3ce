"""Results as they are seen: kept as they were returned, and compared by types, order, NaN and all."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from lapwing.errors import Misconfigured


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


def kept(result: Any) -> Any:
    """A copy, so that a function that fills and returns one buffer cannot change what it returned before."""
    failed = isinstance(result, BaseException)
    try:
        made = copy.deepcopy(result)
    except Exception:  # noqa: BLE001 (any class may refuse to be copied)
        if failed:
            return result
        raise Misconfigured(
            f"the function returned a {type(result).__name__}, which cannot be copied. "
            "Return numbers, text, arrays, or lists and dicts of them."
        ) from None
    return result if failed and not same(made, result) else made
