"""From a survey's file and what was said about its store to the store. A new kind of store is a new line here."""

from __future__ import annotations

from pathlib import Path

from lapwing.errors import Misconfigured
from lapwing.postgres import is_postgres, load_driver, read_address
from lapwing.survey.report_store import SurveyStore
from lapwing.survey.sqlite_store import SqliteSurveyStore


def open_survey_store(file: Path, store: str | None = None, *, exists: bool = False) -> SurveyStore:
    """The store with this path, or the file beside the survey's; with `exists` one that is not there is refused."""
    if is_postgres(store):
        return _in_database(str(store), exists=exists)
    if store is not None and "://" in store:
        raise Misconfigured(
            f"{store.split('://')[0]}:// is not a supported store. Name a file or a postgresql:// address with --store."
        )
    path = file.with_suffix(".db") if store is None else Path(store)
    if exists and not path.is_file():
        raise Misconfigured(f"{path}: there are no reports yet. Run `lapwing survey serve` first, or name --store.")
    return SqliteSurveyStore(path)


def _in_database(address: str, *, exists: bool) -> SurveyStore:
    place = read_address(address, public=True)  # commands are visible in process lists
    load_driver()
    from lapwing.survey.postgres_store import PostgresSurveyStore

    store = PostgresSurveyStore(place)
    if exists and store.survey() is None:
        store.close()
        raise Misconfigured(f"{place}: there are no reports yet. Run `lapwing survey serve` first, or name --store.")
    return store
