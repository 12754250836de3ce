"""What `lapwing doctor` checks. Each check returns a sentence or raises a LapwingError that says what to do."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from lapwing.cli.options import need_server
from lapwing.curator.settings import Settings, open_marks, read_settings
from lapwing.errors import LapwingError, Misconfigured
from lapwing.noise import SYSTEM
from lapwing.noise.bernoulli import exp_is_sound


def _server(file: Path) -> str:
    """What is missing stops a question only if the settings say how to serve."""
    try:
        need_server("Servers")
    except Misconfigured as missing:
        if read_settings(file).serve:
            raise
        return f"not installed. {missing}"
    return "its packages are installed"


def _settings(file: Path) -> str:
    settings = read_settings(file)
    weak = f". {settings.budget.weakness}" if settings.budget.weakness else ""
    return f"{file} declares {len(settings.tables)} table(s){weak}"


def _review(file: Path) -> str:
    marks = open_marks(file)
    if not marks:
        return "no line is marked REVIEW"
    return f"{len(marks)} lines are marked REVIEW. `lapwing check` counts, beside the data, how well facts fit"


def _data(file: Path) -> str:
    from lapwing.engines.backends import open_engine
    from lapwing.engines.csv_rows import drops_rows
    from lapwing.engines.source import Csv

    settings = read_settings(file)
    tables = [*settings.tables, *settings.public]
    open_engine(tables, salt=0, memory=settings.memory).close()
    dropping = {f"`{source.path.name}`" for _, source in tables if isinstance(source, Csv) and drops_rows(source)}
    lines = f"Some lines of {', '.join(sorted(dropping))} are dropped: they are not UTF-8, or have too many fields"
    return f"every declared column exists{f'. {lines}' if dropping else ''}"


def _randomness(_: Path) -> str:
    if SYSTEM.integer(128) == SYSTEM.integer(128):
        raise Misconfigured("the system's random bits repeat. Do not release anything.")
    return "the system returns fresh random bits"


def _arithmetic(_: Path) -> str:
    if not exp_is_sound():
        return "numpy's exp is imprecise here, so every draw uses exact integers, which is slower"
    return "numpy's exp is within its error bound"


def _ledger(file: Path) -> str:
    from lapwing.ledger import has_ledger, verify_ledger
    from lapwing.ledger.phrases import budget_text

    settings = read_settings(file)
    if not has_ledger(settings.ledger) and not any(path.exists() for path in settings.witnesses):
        return "none yet; the first question creates it"
    report = verify_ledger(settings.ledger, witness=settings.witnesses)
    if not report.ok:
        raise Misconfigured(str(report))
    if report.budget is not None and report.budget != settings.budget:
        first, now = budget_text(report.budget), budget_text(settings.budget)
        raise Misconfigured(f"it was created with {first}, but {file} now declares {now}. Restore the original budget.")
    return str(report).splitlines()[0]


def _serving(file: Path) -> str:
    """Opens everything as `ask` does, on a copy of the ledger: whatever would stop a question fails here."""
    settings = read_settings(file)
    files = [settings.ledger] if isinstance(settings.ledger, Path) else []
    logs = [Path(f"{file}{ending}") for file in files for ending in ("-wal", "-shm")]
    folders = [file.parent for file in files]
    for path in (*map(_there, files), *folders, *logs, *map(_there, settings.witnesses)):
        if path.exists() and not os.access(path, os.W_OK):
            raise Misconfigured(f"{path} is not writable by this user. Grant this user write permission.")
    for path in (*files, *settings.witnesses):
        if path.is_dir() or (not path.exists() and not _there(path).is_dir()):
            raise Misconfigured(f"{path} cannot be created: it is a folder, or one of its parents is a file.")
    with TemporaryDirectory(prefix="lapwing-doctor-") as folder:
        try:
            return _open_copy(settings, Path(folder))
        except LapwingError as error:
            text = str(error)
    for number, witness in enumerate(settings.witnesses):
        text = text.replace(str(Path(folder) / f"{number}"), str(witness))
    raise Misconfigured(text.replace(str(Path(folder) / "ledger.db"), str(settings.ledger)))


def _there(path: Path) -> Path:
    """The path, or its nearest existing parent, which must be writable to create it."""
    return next(parent for parent in (path, *path.resolve().parents) if parent.exists())


def _open_copy(settings: Settings, folder: Path) -> str:
    from lapwing.curator import curator_of
    from lapwing.ledger import open_ledger
    from lapwing.ledger.open import check_writable, copy_ledger
    from lapwing.ledger.witness import Witness

    copy, witnesses = folder / "ledger.db", [folder / str(number) for number in range(len(settings.witnesses))]
    if not isinstance(settings.ledger, Path):
        check_writable(settings.ledger)
    copy_ledger(settings.ledger, copy)
    for witness, copied in zip(settings.witnesses, witnesses, strict=True):
        if Witness(witness).read() is not None:
            copied.write_bytes(witness.read_bytes())
    with open_ledger(copy, settings.budget, witness=witnesses) as ledger:
        curator = curator_of([*settings.tables, *settings.public], ledger, memory=settings.memory)
        room = ledger.remaining
        curator.close()
        if not ledger.budget.affordable(room):
            raise Misconfigured("the budget is spent: no new question fits. Stored answers are still available.")
    return "a question would be answered"


CHECKS: dict[str, Callable[[Path], str]] = {
    "settings": _settings,
    "review": _review,
    "data": _data,
    "randomness": _randomness,
    "arithmetic": _arithmetic,
    "ledger": _ledger,
    "serving": _serving,
    "server": _server,
}
