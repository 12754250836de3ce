"""Every question of docs/sql.md, every operator and every aggregate is answered on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from engines.test_texts import LETTERS, PAGE, PRICES, limited
from lapwing.engines.dialect import ARROW_TYPES
from lapwing.engines.engine import Engine
from lapwing.errors import Refused
from lapwing.expressions.operators.table import OPERATORS
from lapwing.expressions.table import Catalog, Table
from lapwing.plan.aggregates import FUNCTIONS
from lapwing.plan.plan import Plan, make_plan
from lapwing.sql import read_sql
from support.cells import exact_cells
from support.hosts import Host, PostgresHost
from support.postgres import PostgresServer


@pytest.fixture(scope="module")
def reader(postgres: PostgresServer) -> Iterator[Host]:
    made = PostgresHost(postgres)
    yield made
    made.close()


def empty(table: Table) -> pa.Table:
    return pa.table({field.name: pa.array([], ARROW_TYPES[field.type]) for field in table.fields})


def planned(text: str, catalog: Catalog) -> Plan | None:
    for price in PRICES:
        try:
            return make_plan(read_sql(text, catalog), price)
        except Refused:
            continue
    return None


def asked(engine: Engine, texts: list[str], catalog: Catalog) -> int:
    plans = [(text, planned(text, catalog)) for text in texts]
    for text, plan in plans:
        if plan is not None:
            try:
                exact_cells(engine, plan)
            except Exception as error:  # noqa: BLE001
                pytest.fail(f"{text}: {type(error).__name__}: {error}")
    return sum(plan is not None for _, plan in plans)


def on(host: Host, catalog: Catalog) -> Any:
    return host.engine([(table, empty(table)) for table in catalog.tables])


def test_every_operator_and_aggregate_is_read(reader: Host) -> None:
    catalog = Catalog((LETTERS,))
    texts = [f"SELECT COUNT(*) FROM letters WHERE ({one.sql}) IS NULL" for one in OPERATORS]
    parts = [part for function in FUNCTIONS.values() for part in function.sql.replace("), ", ");").split(";")]
    texts += [f"SELECT c, {part} FROM letters GROUP BY c" for part in parts]
    engine = on(reader, catalog)
    assert asked(engine, list(dict.fromkeys(texts)), catalog) > len(OPERATORS)
    engine.close()


@pytest.mark.parametrize("page", ["CATALOG", "RELATED"])
def test_every_question_of_the_page_is_read(reader: Host, page: str) -> None:
    catalog = limited(PAGE[page])
    related = [text for _, _, examples in PAGE["RELATIONS"] for text in examples]
    engine = on(reader, catalog)
    assert asked(engine, list(PAGE["EXAMPLES"]) if page == "CATALOG" else related, catalog) > 5
    engine.close()
