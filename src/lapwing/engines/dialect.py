"""How an engine writes forms. A dialect is a table, total by construction; sqlglot writes the rest of the SQL.

Guarantee:  writing needs no rows and no engine, so what cannot be written fails before the charge: a form
            without an entry, a node sqlglot does not know, or one it cannot write in this dialect.
Checked by: tests/engines/test_dialect.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from sqlglot import Dialect as Grammar
from sqlglot import ErrorLevel, exp
from sqlglot.generator import Generator

from lapwing.errors import Bug
from lapwing.language.forms import FORMS, Form

_CLOSED: dict[str, Any] = {"unsupported_level": ErrorLevel.RAISE, "comments": False}


@dataclass(frozen=True, slots=True)
class EngineQuery:
    """A query as an engine runs it: its text, and the tables of public values it uses."""

    text: str
    tables: Mapping[str, pa.Table]


class Writer(Generator):
    """Writes one query, and collects the tables of public values it uses."""

    salt: str
    tables: dict[str, pa.Table]


Write = Callable[[Writer, Any], str]
"""The text of one form."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The SQL of one engine: its name in sqlglot, and its text for every form."""

    name: str
    forms: Mapping[type[Form], Write]
    _writer: type[Writer] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        missing = [form.__name__ for form in FORMS if form not in self.forms]
        if missing:
            raise Bug(f"the dialect {self.name} does not write {', '.join(missing)}")
        grammar = Grammar.get_or_raise(self.name).generator_class
        transforms: dict[Any, Any] = {**grammar.TRANSFORMS, **self.forms}
        made = type("Writer", (Writer, grammar), {"TRANSFORMS": transforms})
        object.__setattr__(self, "_writer", made)

    def write(self, query: exp.Expression, *, salt: str = "") -> EngineQuery:
        """The query as text. Its keyed hashes depend on the secret salt."""
        writer = self._writer(dialect=self.name, **_CLOSED)
        writer.salt, writer.tables = salt, {}
        return EngineQuery(writer.generate(query, copy=False), writer.tables)
