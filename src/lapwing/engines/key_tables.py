"""Which rows have a public key. Few keys are written into the query, many are a table beside it.

Guarantee:  a row is kept if and only if each key of it is one of the declared values, written out or in a table alike.
Proof:      both forms are `key IN (...)` over the same values, in the engine's type of the key, NULL apart. The table
            is made of declared values alone, so what it holds, and whether it can be made, depends on no private row.
Checked by: tests/engines/test_key_tables.py
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lapwing.engines.dialect import Writer
from lapwing.engines.engine import ARROW_TYPES
from lapwing.language.emission import literal

MANY = 250
"""Values, from which on a table takes less time than their text."""


def write_listed(writer: Writer, form: exp.Expression) -> str:
    """Whether the key is one of its public values; NULL may be one of them."""
    values, kind = form.args["values"], form.args.get("kind")
    known = [value for value in values if value is not None]
    key, found = writer.sql(form.this), "FALSE"
    if len(known) > MANY and kind is not None:
        name = f"lw_keys_{form.args['place']}"
        writer.tables[name] = pa.table({"v": pa.array(known, ARROW_TYPES[kind])})
        found = f'{key} IN (SELECT "v" FROM "{name}")'
    elif known:
        found = f"{key} IN ({', '.join(writer.sql(literal(value)) for value in known)})"
    return f"({found} OR {key} IS NULL)" if len(known) < len(values) else f"({found})"
