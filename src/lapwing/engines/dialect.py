"""How an engine writes forms. A dialect is a table, total by construction; sqlglot writes the rest of the SQL.

Every form has an entry: its text, or `Lacking`, which says why this engine cannot give it its meaning. A question that
needs such a form is refused there, before the charge, with that reason; docs/sql.md marks it.

Dates.      A text is read as a DATE if and only if it is read as a TIMESTAMP, on every engine: a day such as
            2020-12-31, 2020/12/31 or 2020 12 31, alone or followed by a valid time of day, by a zone, which is ignored,
            or by both, with spaces around it. Any other text is NULL, such as '2020-12-31 99:99' or 'epoch'. Engines
            and versions of DuckDB disagree on the rest, so each converts only what the pattern (DAY, TO_TIME, TIME,
            ZONE) lets through, without the zone; days that the calendar lacks are NULL in all of them.
Zones.      The offset of a time zone is a binary search over the times at which it changes, all constants of the query.
Guarantee:  writing needs no rows and no engine, so what cannot be written fails before the charge: a form
            without an entry, a node sqlglot does not know, or one it cannot write in this dialect; and a form that
            the engine lacks is refused.
Checked by: tests/engines/test_dialect.py, tests/engines/test_date_pattern.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NoReturn

import pyarrow as pa
from sqlglot import Dialect as Grammar
from sqlglot import ErrorLevel, exp
from sqlglot.generator import Generator

from lapwing.engines.time_limit import LEAST
from lapwing.errors import Bug
from lapwing.expressions.forms import FORM, FORMS, Form
from lapwing.expressions.refusal import refuse
from lapwing.expressions.to_sqlglot import literal
from lapwing.expressions.types import Type
from lapwing.expressions.zones import offsets_of

SPACES = "".join(map(chr, (0x20, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000)))
"""What TRIM removes, on every engine."""

ARROW_TYPES = {
    Type.INTEGER: pa.int64(),
    Type.REAL: pa.float64(),
    Type.TEXT: pa.string(),
    Type.BOOLEAN: pa.bool_(),
    Type.DATE: pa.date32(),
    Type.TIMESTAMP: pa.timestamp("us"),
}
"""The Arrow type for each type."""

DAY = "[0-9]{1,4}(?:-[0-9]{1,2}-|/[0-9]{1,2}/| [0-9]{1,2} )[0-9]{1,2}"
TO_TIME = "(?:T| {1,9})"
TIME = "(?:[01]?[0-9]|2[0-3]):[0-5]?[0-9](?::[0-5]?[0-9](?:[.][0-9]{1,9})?)?"
ZONE = "(?:Z| UTC|[+-][0-9]{2}(?::?[0-9]{2})?)?"
"""Parts of the pattern of dates, which RE2, PostgreSQL and Java read alike."""

MANY = 250
"""From this many values on, a table is faster than their text."""

_VALUE = "\1"
_FIRST, _LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001 (in UTC)
_CLOSED: dict[str, Any] = {"unsupported_level": ErrorLevel.RAISE, "comments": False}


@dataclass(frozen=True, slots=True)
class EngineQuery:
    """A query as an engine runs it: its text, and the tables of public values it uses."""

    text: str
    tables: Mapping[str, pa.Table]
    seconds: int = LEAST
    """How long a server may take for it (time_limit.py)."""
    parsed: Any = field(default=None, compare=False, repr=False)
    """What the engine read from the text when it was prepared, if it keeps that."""


class Writer:
    """Writes one query, and collects the tables of public values it uses."""

    def __init__(self, name: str, salt: str) -> None:
        self._name, self.salt = name, salt
        self._grammar: Generator | None = None
        self.tables: dict[str, pa.Table] = {}
        self.rounded: dict[str, str] = {}
        """Texts that round a number, and the number: where rounding is of float64, whole ones are read as they are."""

    def sql(self, node: exp.Expression | None) -> str:
        """The text of a node whose forms are written already."""
        if node is None:
            return ""
        if type(node) is exp.Var:  # such as a constant: what is written already needs no grammar
            return node.name
        if self._grammar is None:
            self._grammar = _grammar(self._name).generator(**_CLOSED)
        return self._grammar.generate(node, copy=False)


Write = Callable[[Writer, Any], str]
"""The text of one form, whose arguments are written already."""


def _arguments_of(node: exp.Expr) -> list[exp.Expression]:
    """The nodes inside a form, in the order of its arguments."""
    nodes: list[Any] = []
    for part in map(node.args.get, node.args[FORM].arguments):
        if isinstance(part, list):
            nodes += part
        elif isinstance(part, exp.Expr):
            nodes.append(part)
    return nodes


def call(name: str) -> Write:
    """A function of the form's arguments, in their order."""
    return lambda writer, form: f"{name}({', '.join(map(writer.sql, _arguments_of(form)))})"


def template(text: str) -> Write:
    """The text with the form's arguments, in their order."""
    return lambda writer, form: text.format(*map(writer.sql, _arguments_of(form)))


def quote(text: str) -> str:
    """A text constant, in which backslashes stand for themselves."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """A name in double quotes."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Lacking:
    """A form that an engine does not have: why, and what to ask instead."""

    why: str
    instead: str

    def refuse(self) -> NoReturn:
        refuse("unsupported-function", "the question", self.why, self.instead)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The SQL of one engine: its name in sqlglot, and its text for every form."""

    name: str
    forms: Mapping[Form, Write | Lacking]
    nodes: Mapping[type[exp.Expr], Write] = field(default_factory=dict)
    """sqlglot's own nodes that it does not write in their one meaning; a text that is empty leaves them to sqlglot."""

    def __post_init__(self) -> None:
        missing = [form.name for form in FORMS if form not in self.forms]
        if missing:
            raise Bug(f"the dialect {self.name} does not write {', '.join(missing)}")

    def write(self, query: exp.Expression, *, salt: str = "", copy: bool = True) -> EngineQuery:
        """The query as text. Its keyed hashes depend on the secret salt. Without `copy` the tree is consumed."""
        tree = query.copy() if copy else query
        writer = Writer(self.name, salt)
        for node in reversed(list(tree.walk())):  # what is inside a form comes before it
            form = node.args.get(FORM)
            if form is not None:
                write = self.forms[form]
                text = exp.Var(this=write.refuse() if isinstance(write, Lacking) else write(writer, node))
            elif type(node) in self.nodes and (own := self.nodes[type(node)](writer, node)):
                text = exp.Var(this=own)
            elif isinstance(node, exp.DataType) and len(node.args) == 1:
                text = exp.Var(this=_type_name(self.name, node.this))
            else:
                continue
            tree = text if node is tree else tree
            node.replace(text)
        return EngineQuery(writer.sql(tree), dict(sorted(writer.tables.items())))

    @property
    def is_whole(self) -> bool:
        """Whether it lacks no form."""
        return Lacking not in map(type, self.forms.values())

    def check(self, query: exp.Expression) -> None:
        """Refuses what `write` would, for a form that the engine lacks."""
        for node in reversed(list(query.walk())):
            form = node.args.get(FORM)
            if form is not None and isinstance(entry := self.forms[form], Lacking):
                entry.refuse()


def write_listed(writer: Writer, form: exp.Expression) -> str:
    """True if the key is one of its public values, which may include NULL. A range of whole numbers has two ends, few
    keys are listed, and many become a table.

    Guarantee:  a row is kept if and only if its key is one of the declared values, whichever way it is written.
    Proof:      a list and a table are `key IN (...)` over the same values, in the engine's type of the key, NULL apart.
                The table contains declared values only, so its content, and whether it can be created, depends on no
                private row. So many different integers as lie between the least and the largest of them are all of
                those.
    Checked by: tests/engines/test_key_tables.py
    """
    values, kind = form.args["values"], form.args.get("kind")
    known = [value for value in values if value is not None]
    key, test = writer.sql(form.this), "FALSE"
    if kind is Type.INTEGER and len(known) > 2 and max(known) - min(known) < len(set(known)):
        test = f"{key} BETWEEN {min(known)} AND {max(known)}"
    elif len(known) > MANY and kind is not None:
        name = f"lw_keys_{form.args['place']}"
        writer.tables[name] = pa.table({"v": pa.array(known, ARROW_TYPES[kind])})
        column, table = (writer.sql(exp.to_identifier(text, quoted=True)) for text in ("v", name))
        test = f"{key} IN (SELECT {column} FROM {table})"
    elif known:
        test = f"{key} IN ({', '.join(map(writer.sql, list(map(literal, known))))})"
    return f"({test} OR {key} IS NULL)" if len(known) < len(values) else f"({test})"


def local_time(type_name: str, moved: str) -> Write:
    """How an engine writes `forms.LocalTime`: its name of a timestamp, and how it adds seconds."""

    def write(writer: Writer, form: Any) -> str:
        return _zone_text(form.args["zone"], type_name, moved).replace(_VALUE, writer.sql(form.this))

    return write


@lru_cache(maxsize=64)
def _zone_text(zone: str, type_name: str, moved: str) -> str:
    """NULL unless both times are in the years 1 to 9999."""
    changes, offsets = offsets_of(zone)

    def constant(time: datetime) -> str:
        return f"{type_name} '{time.isoformat(' ')}'"

    def search(least: int, most: int) -> str:
        if least == most:
            return str(offsets[least])
        middle = (least + most) // 2
        lower, upper = search(least, middle), search(middle + 1, most)
        return f"CASE WHEN {_VALUE}<{constant(changes[middle])} THEN {lower} ELSE {upper} END"

    first = _FIRST + timedelta(seconds=max(0, -offsets[0]))
    last = _LAST - timedelta(seconds=max(0, offsets[-1]))
    inside = f"{_VALUE}>={constant(first)} AND {_VALUE}<={constant(last)}"
    return f"(CASE WHEN {inside} THEN {moved.format(_VALUE, search(0, len(changes)))} END)"


@lru_cache(maxsize=16)
def _grammar(name: str) -> Grammar:
    return Grammar.get_or_raise(name)


@lru_cache(maxsize=64)
def _type_name(grammar: str, kind: exp.DType) -> str:
    """How an engine writes a type without parameters. sqlglot parses a text each time it writes one."""
    return _grammar(grammar).generator(**_CLOSED).generate(exp.DataType(this=kind))
