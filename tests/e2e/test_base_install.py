"""What the README and the page on installing show runs on exactly what they say to install."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.base_install import hidden, run_base

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
INSTALL = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
CLI = "from lapwing.cli.main import run\nsys.argv[0] = 'lapwing'\nrun()"


def lapwing(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_base(CLI, folder, arguments)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data and reviewed settings."""
    tmp_path = tmp_path_factory.mktemp("visits")
    rows = "\n".join(f"{n},{n % 3}" for n in range(100))
    (tmp_path / "visits.csv").write_text(f"patient,cost\n{rows}\n", encoding="utf-8")
    done = lapwing(tmp_path, "init", "visits.csv", "--unit", "patient", "--epsilon", "2")
    assert done.returncode == 0, done.stderr
    return tmp_path


def test_the_base_install_has_no_frames_pictures_or_servers() -> None:
    assert {"pandas", "polars", "matplotlib", "fastapi", "uvicorn", "sklearn", "pytest", "ibis"} <= hidden()


def test_ibis_is_imported_only_for_its_expressions(folder: Path) -> None:
    """A question in SQL needs no Ibis; a table to write expressions with says how to install it."""
    code = """
import lapwing as lw
curator = lw.load("lapwing.toml")
curator.sql("SELECT COUNT(DISTINCT patient) AS n FROM visits WHERE cost = 1", epsilon=0.1)
curator.sql("SELECT MAX(n) AS m FROM (SELECT COUNT(DISTINCT patient) AS n FROM visits WHERE cost = 2)", epsilon=0.1)
assert "ibis" not in sys.modules
try:
    curator.table("visits")
except lw.Misconfigured as error:
    print(error)
"""
    done = run_base(code, folder)
    assert done.returncode == 0, done.stderr
    assert 'pip install "lapwing[ibis]"' in done.stdout


def test_readme_code_runs_on_the_base_install(tmp_path: Path) -> None:
    assert len(BLOCKS) == 1
    for _ in range(2):  # the ledger of the first run is continued
        done = run_base("\n".join(BLOCKS), tmp_path)
        assert done.returncode == 0, done.stderr
        assert "Warning" not in done.stderr
        assert "people interval" in done.stdout


def test_commands_of_the_readme_run_on_the_base_install(folder: Path) -> None:
    done = lapwing(folder, "ask", "SELECT COUNT(DISTINCT patient) AS n FROM visits", "--epsilon", "0.1")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "epsilon = 0.1" in done.stdout


@pytest.mark.parametrize("arguments", [("serve",), ("serve", "--check"), ("survey", "demo")])
def test_a_server_that_is_not_installed_is_a_sentence(folder: Path, arguments: Sequence[str]) -> None:
    done = lapwing(folder, *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "which is not installed. Run: pip install 'lapwing[server]'" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_doctor_tells_of_a_server_that_is_not_installed(folder: Path) -> None:
    done = lapwing(folder, "doctor")
    assert done.returncode == 0, done.stdout
    assert "ok    server: not installed. Servers need fastapi" in done.stdout
    with (folder / "lapwing.toml").open("a", encoding="utf-8") as settings:
        settings.write("\n[serve]\nport = 8123\n")
    done = lapwing(folder, "doctor")
    assert done.returncode == 1
    assert (
        "FAIL  server: Servers need fastapi, which is not installed. Run: pip install 'lapwing[server]'" in done.stdout
    )


def test_the_page_on_installing_lists_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(re.findall(r"\.\[([a-z-]+)\]", INSTALL)) == set(extras)


@pytest.mark.slow
def test_an_empty_environment_has_all_that_the_readme_needs(tmp_path: Path) -> None:
    """Downloads the base install from the package index, as `pip install .` does."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(ROOT)]
    subprocess.run(install, check=True, stdout=sys.stderr)
    done = subprocess.run([python, "-c", "\n".join(BLOCKS)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([python, "-m", "lapwing", "serve"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'lapwing[server]'" in done.stderr
