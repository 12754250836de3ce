"""The way of tests to exact cells, which in the package only curator/private_data.py reads."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lapwing.engines.engine import Engine
from lapwing.plan.add_noise import Arranged, fetched
from lapwing.plan.plan import Plan
from lapwing.plan.query import queries


def run(engine: Engine, query: exp.Select) -> pa.Table:
    """The rows of a query."""
    return engine.fetch(engine.prepare(query))


def exact_cells(engine: Engine, plan: Plan) -> Arranged:
    """The exact cells of a plan, from all its queries."""
    return fetched(plan, queries(plan).prepared(engine.prepare), engine.fetch)
