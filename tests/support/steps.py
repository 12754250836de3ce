"""Runs code before one chosen bytecode of another piece of code, which is where Python runs signal handlers."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType, ModuleType
from typing import Any


def acts_at(step: int, module: ModuleType, run: Callable[[], object], act: Callable[[], object]) -> bool:
    """Runs, and acts before the bytecode of this number that the module executes. False if there are fewer."""
    steps = itertools.count()

    def on_opcode(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != module.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and next(steps) == step:
            act()
        return on_opcode

    before = sys.gettrace()
    sys.settrace(on_opcode)
    try:
        run()
    finally:
        sys.settrace(before)
    return next(steps) > step


def apart(run: Callable[[], object]) -> None:
    """Runs in a thread of its own. A tracer that raises while an exception is handled leaves that exception as the
    handled one of its thread, where later tests would find it as the context of their own errors."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(run).result()
