"""Which places of the source refuse with advice, and which of them a call went through."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import lapwing
from lapwing.errors import BudgetExceeded, Refused

HOME = Path(lapwing.__file__).parent
_RAISES = {"refuse", "Refused", "PriceChanged", "BudgetExceeded"}
_PASSED_ON = {"expressions/refusal.py", "client/transport.py"}
"""Where a refusal that was made elsewhere is raised again."""


def refusing(*, outside: str) -> dict[str, str]:
    """Every call that refuses, by file and line, but for one room."""
    found = {}
    for file in sorted(HOME.rglob("*.py")):
        name = file.relative_to(HOME).as_posix()
        if name.startswith(f"{outside}/") or name in _PASSED_ON:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _RAISES:
                for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                    found[f"{name}:{line}"] = f"{name}:{node.lineno} {ast.unparse(node)[:120]}"
    return found


def advising(functions: list[Callable[..., Any]]) -> dict[str, str]:
    """Every `return` of functions that write advice, by file and line, but for those of None."""
    found = {}
    for function in functions:
        code = function.__code__
        name = Path(code.co_filename).relative_to(HOME).as_posix()
        for node in ast.walk(ast.parse(Path(code.co_filename).read_text())):
            if isinstance(node, ast.FunctionDef) and node.lineno == code.co_firstlineno:
                for part in ast.walk(node):
                    if isinstance(part, ast.Return) and not _is_none(part.value):
                        found[f"{name}:{part.lineno}"] = f"{name}:{part.lineno} {ast.unparse(part)[:120]}"
    return found


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


@contextmanager
def recorded(codes: set[CodeType]) -> Iterator[list[tuple[str, str]]]:
    """Where each refusal was made while the block ran, with its advice, and every line of these functions."""
    made: list[tuple[str, str]] = []
    with pytest.MonkeyPatch.context() as patch:
        for kind in (Refused, BudgetExceeded):
            patch.setattr(kind, "__init__", _noting(kind.__init__, made))
        before = sys.gettrace()
        sys.settrace(lambda frame, *_: _lines(made) if frame.f_code in codes else None)
        try:
            yield made
        finally:
            sys.settrace(before)


def _noting(make: Callable[..., None], made: list[tuple[str, str]]) -> Callable[..., None]:
    def noted(self: Any, *args: Any, **named: Any) -> None:
        make(self, *args, **named)
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and Path(frame.f_code.co_filename).name in ("refusal.py", "errors.py", "contextlib.py"):
            frame = frame.f_back
        if frame is not None and HOME in Path(frame.f_code.co_filename).parents:
            made.append((_place(frame), getattr(self, "rewrite", self.instead)))

    return noted


def _lines(made: list[tuple[str, str]]) -> Callable[..., Any]:
    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            made.append((_place(frame), ""))
        return trace

    return trace


def _place(frame: FrameType) -> str:
    return f"{Path(frame.f_code.co_filename).relative_to(HOME).as_posix()}:{frame.f_lineno}"
