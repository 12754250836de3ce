"""The way of tests to exact cells, which in the package only curator/private_data.py reads."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lapwing.cells.bounding import queries
from lapwing.cells.release import Arranged, fetched
from lapwing.engines.engine import Engine
from lapwing.planning.plan import Plan


def run(engine: Engine, query: exp.Select) -> pa.Table:
    """The rows of a query."""
    return engine.fetch(engine.prepare(query))


def exact_cells(engine: Engine, plan: Plan) -> Arranged:
    """The exact cells of a plan, from all its queries."""
    return fetched(plan, queries(plan).prepared(engine.prepare), engine.fetch)
