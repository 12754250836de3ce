"""The engine's files on disk: nobody else reads them, and a killed process does not leave them for ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lapwing.engines.temp_folder import TempFolder


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for temporary files that no other process uses."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def killed(place: Path) -> Path:
    """The folder of a process that wrote rows into it and was killed."""
    code = (
        "from lapwing.engines.temp_folder import TempFolder\n"
        "spill = TempFolder()\n"
        "(spill.path / 'duckdb_temp_block-1.block').write_text('rows')\n"
        "print(spill.path, flush=True)\n"
        "input()"
    )
    world = {**os.environ, "TMPDIR": str(place)}
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=world, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    TempFolder().remove()
    assert folder.is_dir()  # as long as it lives
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return folder


def test_what_a_killed_process_left_is_removed_by_the_next(temporary: Path) -> None:
    folder = killed(temporary)
    assert (folder / "duckdb_temp_block-1.block").exists()
    one = TempFolder()
    assert not folder.exists()
    two = TempFolder()
    assert one.path.is_dir()
    assert one.path.stat().st_mode & 0o777 == 0o700
    one.remove()
    two.remove()
    one.remove()
    assert list(temporary.iterdir()) == []


def test_folders_that_are_just_made_or_not_ours_are_left_alone(
    temporary: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One without a lock may be starting; a link may lead anywhere; other names are other programs."""
    starting, other = temporary / "lapwing-temp-starting", temporary / "other"
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for folder in (starting, other):
        folder.mkdir()
    for folder in (other, elsewhere):
        (folder / "lock").touch()
    (temporary / "lapwing-temp-link").symlink_to(elsewhere)
    TempFolder().remove()
    assert starting.is_dir()
    assert (other / "lock").exists()
    assert (elsewhere / "lock").exists()


def test_a_forked_child_does_not_remove_the_folder_of_its_parent() -> None:
    spill = TempFolder()
    child = os.fork()
    if child == 0:
        spill.remove()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert spill.path.is_dir()
    spill.remove()
    assert not spill.path.exists()
