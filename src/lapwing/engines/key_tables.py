"""Which rows have a public key. A range of whole numbers has two ends, few keys are listed, and many become a table.

Guarantee:  a row is kept if and only if each of its keys is one of the declared values, whichever way it is written.
Proof:      a list and a table are `key IN (...)` over the same values, in the engine's type of the key, NULL apart. The
            table contains declared values only, so its content, and whether it can be created, depends on no private
            row. So many different integers as lie between the least and the largest of them are all of those.
Checked by: tests/engines/test_key_tables.py
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lapwing.engines.dialect import Writer
from lapwing.engines.engine import ARROW_TYPES
from lapwing.expressions.to_sqlglot import literal
from lapwing.expressions.types import Type

MANY = 250
"""From this many values on, a table is faster than their text."""


def write_listed(writer: Writer, form: exp.Expression) -> str:
    """True if the key is one of its public values, which may include NULL."""
    values, kind = form.args["values"], form.args.get("kind")
    known = [value for value in values if value is not None]
    key, found = writer.sql(form.this), "FALSE"
    if kind is Type.INTEGER and len(known) > 2 and max(known) - min(known) < len(set(known)):
        found = f"{key} BETWEEN {min(known)} AND {max(known)}"
    elif len(known) > MANY and kind is not None:
        name = f"lw_keys_{form.args['place']}"
        writer.tables[name] = pa.table({"v": pa.array(known, ARROW_TYPES[kind])})
        column, table = (writer.sql(exp.to_identifier(text, quoted=True)) for text in ("v", name))
        found = f"{key} IN (SELECT {column} FROM {table})"
    elif known:
        found = f"{key} IN ({', '.join(map(writer.sql, [literal(value) for value in known]))})"
    return f"({found} OR {key} IS NULL)" if len(known) < len(values) else f"({found})"
