"""The rows of a ledger in PostgreSQL: tables, and one statement for each thing that is read or appended.

The database itself keeps the chain: an inserted entry moves the one row of `head` on, on condition that the head is the
entry before it. An entry that does not continue the head is refused, whoever inserts it and however.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lapwing.ledger.entry import COLUMNS, START, UNSYNCED, Entry
from lapwing.ledger.store import PAGE, AnswerRow, Row

TABLES = ("entry", "answer", "secret", "head")
_TEXT = 'text COLLATE "C"'

_COLUMNS_OF = {
    "entry": {
        "seq": "bigint PRIMARY KEY",
        **{name: _TEXT if name == "key" else f"{_TEXT} NOT NULL" for name in COLUMNS[1:]},
        "writer": f"{_TEXT} NOT NULL",  # tells whose commit it was, should the connection be lost in it
    },
    "answer": {
        "seq": "bigint PRIMARY KEY REFERENCES {schema}.entry (seq)",
        "settled": "bigint NOT NULL REFERENCES {schema}.entry (seq)",
        "match_hash": _TEXT,
        "terms": f"{_TEXT} NOT NULL",
        "payload": "bytea NOT NULL",
    },
    "secret": {"one": "integer PRIMARY KEY CHECK (one = 1)", "salt": "bytea NOT NULL"},
    "head": {
        "one": "integer PRIMARY KEY CHECK (one = 1)",
        "seq": "bigint NOT NULL",
        "hash": f"{_TEXT} NOT NULL",
        "server": f"{_TEXT} NOT NULL",  # the last one that was accepted, and this table's number there
    },
}
_INDEXES = {
    "entry_key": "UNIQUE INDEX entry_key ON {schema}.entry (analyst, key) WHERE key IS NOT NULL",
    "entry_kind": "INDEX entry_kind ON {schema}.entry (kind, analyst, seq)",
    "answer_match": "INDEX answer_match ON {schema}.answer (match_hash, terms, seq) WHERE match_hash IS NOT NULL",
    "answer_settled": "INDEX answer_settled ON {schema}.answer (match_hash, settled) WHERE match_hash IS NOT NULL",
}
_REFUSE = "RAISE EXCEPTION 'the ledger is append-only'"
_FUNCTIONS = {
    "keep": f"BEGIN {_REFUSE}; END",
    "entry_moves_head": f"""BEGIN
  UPDATE {{schema}}.head SET seq = NEW.seq, hash = NEW.hash WHERE seq = NEW.seq - 1 AND hash = NEW.previous;
  IF NOT FOUND THEN {_REFUSE}; END IF;
  RETURN NULL;
END""",
    "head_moves_on": f"""BEGIN
  IF NEW.one <> OLD.one OR (NEW.seq, NEW.hash) <> (OLD.seq, OLD.hash) AND NOT EXISTS (SELECT FROM {{schema}}.entry
    WHERE seq = OLD.seq + 1 AND previous = OLD.hash AND seq = NEW.seq AND hash = NEW.hash) THEN {_REFUSE}; END IF;
  RETURN NEW;
END""",
}
_TRIGGERS = {
    **{
        f"{table}_no_{action.lower()}": f"BEFORE {action} ON {{schema}}.{table} FOR EACH STATEMENT "
        "EXECUTE FUNCTION {schema}.keep()"
        for table in TABLES
        for action in ("UPDATE", "DELETE", "TRUNCATE")
        if (table, action) != ("head", "UPDATE")
    },
    "entry_moves_head": "AFTER INSERT ON {schema}.entry FOR EACH ROW EXECUTE FUNCTION {schema}.entry_moves_head()",
    "head_moves_on": "BEFORE UPDATE ON {schema}.head FOR EACH ROW EXECUTE FUNCTION {schema}.head_moves_on()",
}

_COLUMNS = ", ".join(COLUMNS)
_ANSWER = ", ".join(AnswerRow._fields)
_FOUND_TABLES = """SELECT c.relname, array_agg(a.attname::text || ' ' || format_type(a.atttypid, a.atttypmod)
    ORDER BY a.attnum)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = to_regnamespace(%s) AND c.relkind = 'r' AND c.relpersistence = 'p'
  AND c.relname = ANY(%s) GROUP BY c.relname"""
_FOUND_TRIGGERS = """SELECT t.tgname, pg_get_triggerdef(t.oid), t.tgenabled
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = to_regnamespace(%s) AND c.relname = ANY(%s) AND NOT t.tgisinternal"""
_FOUND_FUNCTIONS = "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = to_regnamespace(%s) AND proname = ANY(%s)"
_FOUND_INDEXES = """SELECT c.relname, pg_get_indexdef(i.indexrelid), i.indisvalid
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relnamespace = to_regnamespace(%s) AND c.relname = ANY(%s)"""


class Transaction(Protocol):
    """One transaction on a connection."""

    def run(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """The rows of one statement."""


def newest_entries(schema: str, seq: int) -> str:
    """Reads the first entry, and all from this number on or, if there is none, the last."""
    last = f"least({seq}, (SELECT max(seq) FROM {schema}.entry))"
    return f"SELECT {_COLUMNS} FROM {schema}.entry WHERE seq = 1 OR seq >= {last} ORDER BY seq"


def schema_statements(schema: str) -> list[str]:
    """Makes the tables of an empty ledger, and what keeps them append-only."""
    tables = {
        name: ", ".join(f"{column} {kind}" for column, kind in columns.items()) for name, columns in _COLUMNS_OF.items()
    }
    made = [
        *(f"CREATE TABLE {{schema}}.{name} ({columns})" for name, columns in tables.items()),
        "ALTER TABLE {schema}.head SET (fillfactor = 10)",  # its one row changes with every entry
        *(f"CREATE {index}" for index in _INDEXES.values()),
        *(
            f"CREATE FUNCTION {{schema}}.{name}() RETURNS trigger LANGUAGE plpgsql AS $lapwing${text}$lapwing$"
            for name, text in _FUNCTIONS.items()
        ),
        *(f"CREATE TRIGGER {name} {text}" for name, text in _TRIGGERS.items()),
    ]
    return [statement.replace("{schema}", schema) for statement in made]


class PostgresBook:
    """Reads and appends in one transaction. `server` is where it runs, `durable` an entry that is certainly on disk."""

    def __init__(
        self, session: Transaction, schema: str, *, writer: str = "", server: str = "", durable: int = 0
    ) -> None:
        self._session = session
        self._schema = schema
        self._entries = f"SELECT {_COLUMNS} FROM {schema}.entry"
        self._writer = writer
        self._server = server
        self._durable = durable
        self.mark: Mark | None = None
        """The last entry that was appended."""
        self._at_hand: dict[int, Row] = {}
        """The first entry and the last ones, if they were read with the lock: nobody else adds to them."""

    def have_at_hand(self, rows: list[Row]) -> None:
        """Takes the first entry and all from some number on, which were read with the lock."""
        self._at_hand = {row[0]: row for row in rows}

    def is_empty(self) -> bool:
        return not self._tables()

    def create(self, salt: bytes) -> None:
        if not self._session.run("SELECT to_regnamespace(%s) IS NOT NULL", [self._schema])[0][0]:
            self._session.run(f"CREATE SCHEMA {self._schema}")
        self._session.run("; ".join(schema_statements(self._schema)))
        self._session.run(f"INSERT INTO {self._schema}.secret (one, salt) VALUES (1, %s)", [salt])
        first = f"INSERT INTO {self._schema}.head (one, seq, hash, server) VALUES (1, 0, %s, %s)"
        self._session.run(first, [START, self._server])
        self.accept_server()

    def salt(self) -> object:
        return self._value(f"SELECT salt FROM {self._schema}.secret")

    def entry(self, seq: int) -> Row | None:
        return self._at_hand.get(seq) or self._one("WHERE seq = %s", seq)

    def last(self) -> Row | None:
        return self._at_hand[max(self._at_hand)] if self._at_hand else self._one("ORDER BY seq DESC LIMIT 1")

    def last_durable(self) -> Row | None:
        wanted = "WHERE kind <> ALL(%s) AND seq <= %s ORDER BY seq DESC LIMIT 1"
        return self._one(wanted, list(UNSYNCED), self._durable)

    def entries_from(self, seq: int) -> list[Row]:
        if seq > 1 and seq in self._at_hand:
            return [row for number, row in sorted(self._at_hand.items()) if number >= seq]
        return self._all("WHERE seq >= %s ORDER BY seq", seq)

    def page(self, after: int | None, end: int | None = None) -> list[Row]:
        asked = [(text, value) for text, value in (("seq > %s", after), ("seq <= %s", end)) if value is not None]
        where = f"WHERE {' AND '.join(text for text, _ in asked)}" if asked else ""
        return self._all(f"{where} ORDER BY seq LIMIT {PAGE}", *(value for _, value in asked))

    def entries_of(self, kind: str, analyst: str) -> list[Row]:
        return self._all("WHERE kind = %s AND analyst = %s ORDER BY seq", kind, analyst)

    def latest(self, kind: str, analyst: str) -> Row | None:
        return self._one("WHERE kind = %s AND analyst = %s ORDER BY seq DESC LIMIT 1", kind, analyst)

    def with_key(self, analyst: str, key: str) -> Row | None:
        return self._one("WHERE analyst = %s AND key = %s", analyst, key)

    def append(self, entry: Entry) -> None:
        places = ", ".join(["%s"] * (len(COLUMNS) + 1))
        values = [*(getattr(entry, name) for name in COLUMNS), self._writer]
        self._session.run(f"INSERT INTO {self._schema}.entry ({_COLUMNS}, writer) VALUES ({places})", values)
        self.mark = entry.seq, entry.hash, self._writer
        if self._at_hand:
            self._at_hand[entry.seq] = tuple(values[:-1])

    def accept_server(self) -> None:
        """Records that the ledger is served from here on."""
        self._session.run(f"UPDATE {self._schema}.head SET server = %s::text || '.' || tableoid::text", [self._server])

    def answer(self, seq: int) -> AnswerRow | None:
        found = self._session.run(f"SELECT {_ANSWER} FROM {self._schema}.answer WHERE seq = %s", [seq])
        return AnswerRow(*found[0]) if found else None

    def matching(self, match_hash: str) -> list[int]:
        wanted = f"SELECT seq FROM {self._schema}.answer WHERE match_hash = %s ORDER BY seq DESC"
        return [seq for (seq,) in self._session.run(wanted, [match_hash])]

    def offers(self, match_hash: str) -> list[tuple[int, str]]:
        wanted = f"SELECT max(seq), terms FROM {self._schema}.answer WHERE match_hash = %s GROUP BY terms"
        return sorted([(seq, terms) for seq, terms in self._session.run(wanted, [match_hash])], reverse=True)

    def stamp(self, match_hash: str) -> Row:
        wanted = f"""SELECT (SELECT hash FROM {self._schema}.entry WHERE seq = 1),
          (SELECT max(settled) FROM {self._schema}.answer WHERE match_hash = %s),
          (SELECT max(seq) FROM {self._schema}.entry WHERE kind = 'version' AND analyst = '')"""
        return self._session.run(wanted, [match_hash])[0]

    def add_answer(self, answer: AnswerRow) -> None:
        self._session.run(f"INSERT INTO {self._schema}.answer ({_ANSWER}) VALUES (%s, %s, %s, %s, %s)", answer)

    def answered(self) -> list[Row]:
        return self._session.run(f"SELECT seq, settled FROM {self._schema}.answer ORDER BY seq")

    def find_damage(self) -> str | None:
        schema, names = self._schema, list(TABLES)
        tables = {name: list(columns) for name, columns in self._session.run(_FOUND_TABLES, [schema, names])}
        found = [
            tables == {name: _described(columns) for name, columns in _COLUMNS_OF.items()},
            self._texts(_FOUND_FUNCTIONS, list(_FUNCTIONS)) == self._filled(_FUNCTIONS),
            self._defined(_FOUND_TRIGGERS, names, "O") == self._filled(_TRIGGERS, "CREATE TRIGGER {name} "),
            self._defined(_FOUND_INDEXES, list(_INDEXES), True).keys() == _INDEXES.keys(),
            self._value(
                f"SELECT (seq, hash) = (SELECT seq, hash FROM {schema}.entry ORDER BY seq DESC LIMIT 1) "
                f"FROM {schema}.head"
            )
            is True,
        ]
        return None if all(found) else "The tables, or the triggers that make them append-only, were changed."

    def writer(self, seq: int, digest: str) -> object:
        """Whose commit an entry was; None if it is not there."""
        return self._value(f"SELECT writer FROM {self._schema}.entry WHERE seq = %s AND hash = %s", seq, digest)

    def head(self) -> Row | None:
        """Number and hash of the last entry."""
        found = self._session.run(f"SELECT seq, hash FROM {self._schema}.head")
        return found[0] if found else None

    def _tables(self) -> list[str]:
        wanted = "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relname = ANY(%s)"
        return [name for (name,) in self._session.run(wanted, [self._schema, list(TABLES)])]

    def _texts(self, statement: str, names: list[str]) -> dict[str, str]:
        return {row[0]: row[1] for row in self._session.run(statement, [self._schema, names])}

    def _defined(self, statement: str, names: list[str], state: object) -> dict[str, str]:
        """Definitions of what is switched on."""
        return {row[0]: row[1] for row in self._session.run(statement, [self._schema, names]) if row[2] == state}

    def _filled(self, texts: dict[str, str], start: str = "") -> dict[str, str]:
        return {
            name: start.replace("{name}", name) + text.replace("{schema}", self._schema) for name, text in texts.items()
        }

    def _value(self, statement: str, *values: object) -> object:
        found = self._session.run(statement, values)
        return found[0][0] if found else None

    def _one(self, where: str, *values: object) -> Row | None:
        found = self._all(where, *values)
        return found[0] if found else None

    def _all(self, where: str, *values: object) -> list[Row]:
        return self._session.run(f"{self._entries} {where}", values)


Mark = tuple[int, str, str]
"""Number, hash and writer of an entry."""


def _described(columns: dict[str, str]) -> list[str]:
    return [f"{name} {kind.split()[0]}" for name, kind in columns.items()]
