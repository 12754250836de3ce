"""Writes docs/course: the pages of the course, and a notebook of each, from src/lapwing/lab/course."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lapwing.lab.course import LECTURES, Lecture, read_lecture

FOLDER = Path(__file__).parent / "course"


def main() -> None:
    for name, content in course().items():
        (FOLDER / name).write_text(content, encoding="utf-8")


def course() -> dict[str, str]:
    """What each file holds."""
    files = {}
    for name, page in LECTURES.items():
        lecture = read_lecture(name)
        files[page] = lecture.page
        files[page.replace(".md", ".ipynb")] = json.dumps(notebook(lecture), indent=1, ensure_ascii=False) + "\n"
    return files


def notebook(lecture: Lecture) -> dict[str, Any]:
    """The page as a notebook in nbformat 4.5; what the page prints is stored as the output of its cells."""
    cells: list[dict[str, Any]] = []
    for cell in lecture.cells:
        if cell.kind == "output":
            cells[-1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": lines(cell.text)}]
            continue
        made = {"id": f"{lecture.name}-{len(cells)}", "metadata": {}, "source": lines(cell.text.rstrip("\n"))}
        code = {"cell_type": "code", "execution_count": None, "outputs": []}
        cells.append(made | (code if cell.kind == "code" else {"cell_type": "markdown"}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    main()
