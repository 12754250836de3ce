"""The tables of a ledger in PostgreSQL.

The database itself keeps the chain: an inserted entry moves the one row of `head` on, on condition that the head is the
entry before it. An entry that does not continue the head is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from lapwing.ledger.entry import COLUMNS, START, Entry
from lapwing.ledger.postgres_server import Link
from lapwing.ledger.store import CHANGED, INDEXES, Book, Row

_TEXT = 'text COLLATE "C"'

_TABLES = {
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
        for table in _TABLES
        for action in ("UPDATE", "DELETE", "TRUNCATE")
        if (table, action) != ("head", "UPDATE")
    },
    "entry_moves_head": "AFTER INSERT ON {schema}.entry FOR EACH ROW EXECUTE FUNCTION {schema}.entry_moves_head()",
    "head_moves_on": "BEFORE UPDATE ON {schema}.head FOR EACH ROW EXECUTE FUNCTION {schema}.head_moves_on()",
}

_FOUND_TABLES = """SELECT c.relname, array_agg(a.attname::text || ' ' || format_type(a.atttypid, a.atttypmod)
    ORDER BY a.attnum)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = to_regnamespace(?) AND c.relkind = 'r' AND c.relpersistence = 'p'
  AND c.relname = ANY(?) GROUP BY c.relname"""
_FOUND_TRIGGERS = """SELECT t.tgname, pg_get_triggerdef(t.oid)
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = to_regnamespace(?) AND c.relname = ANY(?) AND NOT t.tgisinternal
  AND t.tgenabled = 'O'"""
_FOUND_FUNCTIONS = "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = to_regnamespace(?) AND proname = ANY(?)"
_FOUND_INDEXES = """SELECT c.relname, NULL
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relnamespace = to_regnamespace(?) AND c.relname = ANY(?) AND i.indisvalid"""


def newest_entries(schema: str, seq: int) -> str:
    """Reads the first entry, and all from this number on or, if there is none, the last."""
    last = f"least({seq}, (SELECT max(seq) FROM {schema}.entry))"
    return f"SELECT {', '.join(COLUMNS)} FROM {schema}.entry WHERE seq = 1 OR seq >= {last} ORDER BY seq"


def schema_statements(schema: str) -> list[str]:
    """Makes the tables of an empty ledger, and what keeps them append-only."""
    statements = [
        *(f"CREATE TABLE {{schema}}.{name} ({', '.join(map(' '.join, of.items()))})" for name, of in _TABLES.items()),
        "ALTER TABLE {schema}.head SET (fillfactor = 10)",  # its one row changes with every entry
        *(index.replace("{schema}", "{schema}.") for index in INDEXES.values()),
        *(
            f"CREATE FUNCTION {{schema}}.{name}() RETURNS trigger LANGUAGE plpgsql AS $lapwing${text}$lapwing$"
            for name, text in _FUNCTIONS.items()
        ),
        *(_create_trigger(name, schema) for name in _TRIGGERS),
    ]
    return [statement.replace("{schema}", schema) for statement in statements]


def _create_trigger(name: str, schema: str) -> str:
    return f"CREATE TRIGGER {name} {_TRIGGERS[name].replace('{schema}', schema)}"


class PostgresBook(Book):
    """Reads and appends in one transaction. `server` is where it runs, `durable` an entry that is certainly on disk.

    `rows` are the first entry and all from some number on, if they were read with the lock: then no other writer adds
    to them.
    """

    def __init__(
        self,
        link: Link,
        schema: str,
        *,
        writer: str = "",
        server: str = "",
        durable: int = 0,
        rows: Sequence[Row] = (),
    ) -> None:
        super().__init__(lambda statement, values: link.execute(statement.replace("?", "%s"), values), f"{schema}.")
        self._schema = schema
        self._writer = writer
        self._server = server
        self._durable = durable
        self._at_hand = {row[0]: row for row in rows}
        self.mark: Mark | None = None
        """The last entry that was appended."""

    def is_empty(self) -> bool:
        statement = "SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace(?) AND relname = ANY(?)"
        return not self._value(statement, self._schema, list(_TABLES))

    def create(self, salt: bytes) -> None:
        if not self._value("SELECT to_regnamespace(?) IS NOT NULL", self._schema):
            self._execute(f"CREATE SCHEMA {self._schema}", ())
        self._execute("; ".join(schema_statements(self._schema)), ())
        self._execute(f"INSERT INTO {self._secret} (one, salt) VALUES (1, ?)", [salt])
        first = f"INSERT INTO {self._schema}.head (one, seq, hash, server) VALUES (1, 0, ?, ?)"
        self._execute(first, [START, self._server])
        self.accept_server()

    def entry(self, seq: int) -> Row | None:
        return self._at_hand.get(seq) or super().entry(seq)

    def last(self) -> Row | None:
        return self._at_hand[max(self._at_hand)] if self._at_hand else super().last()

    def entries_from(self, seq: int) -> list[Row]:
        if seq > 1 and seq in self._at_hand:
            return [row for number, row in sorted(self._at_hand.items()) if number >= seq]
        return super().entries_from(seq)

    def append(self, entry: Entry) -> None:
        marks = ", ".join("?" * (len(COLUMNS) + 1))
        statement = f"INSERT INTO {self._entry} ({', '.join(COLUMNS)}, writer) VALUES ({marks})"
        self._execute(statement, (*entry.row, self._writer))
        self.mark = entry.seq, entry.hash, self._writer
        if self._at_hand:
            self._at_hand[entry.seq] = entry.row

    def accept_server(self) -> None:
        """Records that the ledger is served from here on."""
        statement = f"UPDATE {self._schema}.head SET server = ?::text || '.' || tableoid::text"
        self._execute(statement, [self._server])

    def find_damage(self) -> str | None:
        schema, tables = self._schema, list(_TABLES)
        columns = {name: [f"{column} {kind.split()[0]}" for column, kind in of.items()] for name, of in _TABLES.items()}
        functions = {name: text.replace("{schema}", schema) for name, text in _FUNCTIONS.items()}
        triggers = {
            name: f"CREATE TRIGGER {name} {text.replace('{schema}', schema)}" for name, text in _TRIGGERS.items()
        }
        is_head = f"(seq, hash) = (SELECT seq, hash FROM {self._entry} ORDER BY seq DESC LIMIT 1)"
        intact = [
            self._definitions(_FOUND_TABLES, tables) == columns,
            self._definitions(_FOUND_FUNCTIONS, list(_FUNCTIONS)) == functions,
            self._definitions(_FOUND_TRIGGERS, tables) == triggers,
            self._definitions(_FOUND_INDEXES, list(INDEXES)).keys() == INDEXES.keys(),
            self._value(f"SELECT {is_head} FROM {schema}.head") is True,
        ]
        return None if all(intact) else CHANGED

    def writer(self, seq: int, digest: str) -> object:
        """Whose commit an entry was; None if it is not there."""
        return self._value(f"SELECT writer FROM {self._entry} WHERE seq = ? AND hash = ?", seq, digest)

    def head(self) -> Row | None:
        return self._execute(f"SELECT seq, hash FROM {self._schema}.head", ()).fetchone()

    def _definitions(self, statement: str, names: list[str]) -> dict[str, object]:
        return dict(self._execute(statement, [self._schema, names]).fetchall())


Mark = tuple[int, str, str]
"""Number, hash and writer of an entry."""
