"""Runs the code of the steward's guide and puts what it prints below each block: `python docs/make_guide.py`."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent / "stewards-guide.md"
BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:```text\n.*?```\n)?", re.DOTALL)


def filled(page: str) -> str:
    """The page with the output of every block; blocks run one after the other in one namespace."""
    names: dict[str, Any] = {}

    def run(block: re.Match[str]) -> str:
        with redirect_stdout(StringIO()) as out:
            exec(compile(block["code"], PAGE.name, "exec"), names)
        printed = out.getvalue()
        return f"```python\n{block['code']}```\n" + (f"```text\n{printed}```\n" if printed else "")

    return BLOCK.sub(run, page)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
