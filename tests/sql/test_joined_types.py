"""Joins over every pair of stored types: a private row has at most one public partner, and it is the right one.

The reference is DuckDB's own join of the stored values, each cast to its declared type and then to the common one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lapwing.curator import Curator, open_data
from lapwing.engines import duckdb as engine_module
from lapwing.engines.duckdb import DuckDBEngine, stored_types
from lapwing.engines.public import read_public
from lapwing.engines.source import DuckDBTable
from lapwing.errors import Refused
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Type
from lapwing.plan.add_noise import arrange
from lapwing.plan.plan import Plan, make_plan
from lapwing.plan.query import cells_query
from lapwing.plan.question import Question
from lapwing.privacy import Budget, Pure
from lapwing.sql import read_sql
from support.cells import exact_cells, run
from support.refusals import attempt
from support.sweeps import sweep
from support.visits import interval

_POWERS = [n for power in (7, 16, 24, 31, 53, 63, 64) for n in (2**power - 1, 2**power, 2**power + 1)]
_WHOLE = [*map(str, [0, 1, 2, 10, *_POWERS, *(-n for n in _POWERS)])]
_PARTS = ["0.1", "0.5", "0.49", "1.005", "1.004", "1.04", "-0.1", "16777216.5", "16777217.5", "2147483647.5", "1e-45"]
_NUMBERS = [*_WHOLE, *_PARTS, "0.0", "-0.0", "nan", "-nan", "inf", "-inf", "1e300", "3.5e38"]
_TEXTS = ["", " ", "a", "A", "a ", " a", "é", "e\u0301", "É", "ß", "ss", "\u0131", "I", "i", "1", "01", "1.0", "nan"]
_TEXTS += ["16777217", "6ccd780c-baba-1026-9564-5b8c656024db", "6CCD780C-BABA-1026-9564-5B8C656024DB"]
_TIMES = ["2020-01-01 00:00:00", "2020-01-01 00:00:00.000001", "2020-01-01 00:00:00.0000001", "2020-01-01 00:00:00.001"]
_TIMES += ["2020-03-29 01:30:00+00", "2020-03-29 02:30:00+01", "2020-03-29 03:30:00+02", "2020-10-25 02:30:00+02"]
_TIMES += ["1969-12-31 23:59:59.999999", "0001-01-01 00:00:00", "9999-12-31 00:00:00", "infinity", "0044-03-15 (BC)"]

NUMBERS = (
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT", "UHUGEINT",
    "FLOAT", "DOUBLE", "DECIMAL(4,1)", "DECIMAL(18,3)", "DECIMAL(38,0)", "DECIMAL(38,10)",
)  # fmt: skip
WORDS = ("VARCHAR", "VARCHAR COLLATE NOCASE", "VARCHAR COLLATE NOACCENT", "ENUM", "UUID")
TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ")
KINDS = (*NUMBERS, *WORDS, "BOOLEAN", *TIMES)

ENGINE = {
    Type.INTEGER: "BIGINT",
    Type.REAL: "DOUBLE",
    Type.TEXT: "VARCHAR",
    Type.BOOLEAN: "BOOLEAN",
    Type.DATE: "DATE",
    Type.TIMESTAMP: "TIMESTAMP",
}
LIMITS = ("0001-01-01", "9999-12-31")


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def inputs(kind: str) -> list[str]:
    if kind in NUMBERS:
        return _NUMBERS
    return _TEXTS if kind in WORDS else ["true", "false"] if kind == "BOOLEAN" else _TIMES


def declared(kind: str) -> str:
    return f"ENUM ({', '.join(map(quoted, _TEXTS))})" if kind == "ENUM" else kind


def is_comparable(one: str, two: str) -> bool:
    return {one, two} <= set(NUMBERS) or {one, two} <= set(WORDS) or {one, two} <= set(TIMES) - {"DATE"} or one == two


class World:
    """One file with a private and a public table of every stored type, an engine over them, and plain DuckDB beside."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with duckdb.connect(str(path)) as connection:
            for number, kind in enumerate(KINDS):
                write_tables(connection, number, kind)
        tables = {f"t{number}": self.private(number) for number in range(len(KINDS))}
        self.public = {kind: read_public(f"p{i}", DuckDBTable(path, f"p{i}")) for i, kind in enumerate(KINDS)}
        self.types = {kind: table.field("x").type for kind, table in self.public.items()}
        self.honest = Catalog((*tables.values(), *self.public.values()))
        self.forced = Catalog((*tables.values(), *map(with_a_claimed_key, self.public.values())))
        self.engine = DuckDBEngine([(t, DuckDBTable(path, t.name)) for t in self.forced.tables], salt=1)
        self.plain = duckdb.connect(str(path), read_only=True)

    def private(self, number: int) -> Table:
        with duckdb.connect(str(self.path), read_only=True) as connection:
            (many,) = connection.execute(f"SELECT COUNT(*) FROM t{number}").fetchone() or (0,)
        kind = stored_types(DuckDBTable(self.path, f"t{number}"))["x"]
        return Table(f"t{number}", (Field("row", Type.INTEGER, values=tuple(range(many))), Field("x", kind)), None)

    def value(self, side: str, kind: str, common: Type) -> str:
        """A stored value as its declared type, then as the common one; what is no number or no date of ours is NULL."""
        own, column = ENGINE[self.types[kind]], f"{side}.x"
        node = f"TRY_CAST({column} AS {own})"
        if kind in TIMES:
            return f"CASE WHEN {node} BETWEEN TIMESTAMP '0001-01-01' AND TIMESTAMP '9999-12-31' THEN {node} END"
        if common is Type.TEXT:
            return f'{node} COLLATE "C"'
        return f"NULLIF(CAST({node} AS DOUBLE), 'nan'::DOUBLE)" if common is Type.REAL else node

    def common(self, one: str, two: str) -> Type:
        kinds = {self.types[one], self.types[two]}
        return Type.REAL if len(kinds) == 2 else kinds.pop()

    def partners(self, private: str, public: str) -> list[int]:
        """How many public rows each private row is equal to, by plain DuckDB."""
        common = self.common(private, public)
        same = f"{self.value('t', private, common)} = {self.value('p', public, common)}"
        tables = f"t{KINDS.index(private)} t LEFT JOIN p{KINDS.index(public)} p ON {same}"
        query = f"SELECT COUNT(p.rowid) FROM {tables} GROUP BY t.row ORDER BY t.row"
        return [int(count) for (count,) in self.plain.execute(query).fetchall()]

    def is_ambiguous(self, public: str, common: Type) -> bool:
        """Whether two public rows are equal in this type."""
        value = self.value("p", public, common)
        query = f"SELECT 1 FROM p{KINDS.index(public)} p WHERE {value} IS NOT NULL GROUP BY {value} HAVING COUNT(*) > 1"
        return self.plain.execute(query).fetchone() is not None

    def counted(self, text: str, catalog: Catalog) -> list[int] | None:
        """The exact cells, one for each private row; None if the question is refused."""
        question = attempt(read_sql, text, catalog)
        if isinstance(question, Refused):
            return None
        plan = make_plan(question, Pure(1))
        assert isinstance(plan, Plan)
        [[cells]] = arrange(plan, run(self.engine, cells_query(plan))).cells
        return [int(cell) for cell in cells.tolist()]


def write_tables(connection: duckdb.DuckDBPyConnection, number: int, kind: str) -> None:
    """Every different value that the type holds, and NULL: p in no order, t numbered."""
    plain = declared(kind.split(" COLLATE")[0])
    texts = ", ".join(f"({quoted(text)})" for text in inputs(kind))
    values = f"SELECT DISTINCT TRY_CAST(s AS {plain}) AS x FROM (VALUES {texts}, (NULL)) v(s)"
    connection.execute(f"CREATE TABLE p{number} (x {declared(kind)})")
    connection.execute(f"INSERT INTO p{number} {values}")
    connection.execute(f"CREATE TABLE t{number} (row BIGINT, x {declared(kind)})")
    connection.execute(f"INSERT INTO t{number} SELECT rowid, x FROM p{number}")


def with_a_claimed_key(table: Table) -> Table:
    """The same table with a key that nobody proved."""
    field = Field("x", table.field("x").type, interval(0, 1) if table.field("x").type.is_number else None)
    return Table(table.name, (field,), None, public=True, keys=(("x",),))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_module, "is_key", lambda *_: True)
        made = World(tmp_path_factory.mktemp("types") / "all.duckdb")
    yield made
    made.plain.close()
    made.engine.close()


def join(private: str, public: str, key: str = "t.x", how: str = "JOIN") -> str:
    t, p = f"t{KINDS.index(private)}", f"p{KINDS.index(public)}"
    return f"SELECT row, COUNT(*) AS n FROM {t} AS t {how} {p} AS p ON {key} = p.x GROUP BY row"


PAIRS = [(one, two) for one in KINDS for two in KINDS if is_comparable(one, two)]


@pytest.mark.parametrize("private", KINDS)
def test_every_pair_of_stored_types_joins_as_duckdb_does_in_the_common_type(private: str, world: World) -> None:
    """threat:A34 what a key does not tell apart is refused; every other row meets its one partner and nobody else."""
    for _, public in (pair for pair in PAIRS if pair[0] == private):
        common, expected = world.common(private, public), world.partners(private, public)
        found = world.counted(join(private, public), world.honest)
        if found is None:
            assert world.is_ambiguous(public, world.types[public]) or world.is_ambiguous(public, common), public
        else:
            assert found == expected, public
            assert max(found) <= 1, public


@pytest.mark.parametrize("private", sweep(sorted(KINDS, key=lambda kind: KINDS.index(kind) % 3), 10))
def test_a_row_has_one_partner_at_most_even_if_a_key_was_claimed_wrongly(private: str, world: World) -> None:
    """threat:A34 by construction: the proof of uniqueness is switched off here, and public values collide."""
    for _, public in (pair for pair in PAIRS if pair[0] == private):
        expected = [min(1, many) for many in world.partners(private, public)]
        assert world.counted(join(private, public), world.forced) == expected, public
        assert set(world.counted(join(private, public, how="LEFT JOIN"), world.forced) or []) == {1}, public


COMPUTED = (
    "t.x + 0",
    "CASE WHEN t.x > 100 THEN t.x ELSE t.row END",
    "CASE WHEN t.x > 100 THEN t.x ELSE 0.5 END",
    "COALESCE(t.x, 16777217)",
    "GREATEST(t.x, t.row)",
    "CAST(t.x AS INTEGER)",
    "CAST(t.x AS DOUBLE)",
    "NULLIF(t.x, 9223372036854775808)",
)


@pytest.mark.parametrize("private", NUMBERS)
def test_computed_keys_have_one_partner_at_most(private: str, world: World) -> None:
    """threat:A34 `CASE` between a stored float32 and a whole number was a float32."""
    for public in ("BIGINT", "FLOAT", "DECIMAL(38,0)"):
        for key in COMPUTED:
            found = world.counted(join(private, public, key), world.forced)
            assert found is not None
            assert max(found) <= 1, (public, key)


def test_the_values_collide_where_they_should(world: World) -> None:
    """So that the tests above have power: some public tables are ambiguous, and most pairs are joined all the same."""
    many = {(one, two) for one, two in PAIRS if max(world.partners(one, two)) > 1}
    assert {("DOUBLE", "BIGINT"), ("TIMESTAMP", "TIMESTAMP_NS"), ("DOUBLE", "DECIMAL(38,0)")} <= many
    answered = [pair for pair in PAIRS if isinstance(attempt(read_sql, join(*pair), world.honest), Question)]
    assert len(PAIRS) > 300
    assert len(answered) > len(PAIRS) / 2


NEIGHBOURS = pa.table({"code": pa.array([2**40 + i for i in range(5000)], pa.int64())})
BY_CODE = "SELECT COUNT(*) AS n FROM t JOIN p ON {} = p.code"


def opened(data: Any, **changes: Any) -> Curator:
    fresh = {} if isinstance(data, str | Path) else {"ledger": ":memory:"}
    return open_data(data, **{"name": "t", "unit": None, "budget": Budget(epsilon=1000), **fresh, **changes})


def accounts(folder: Path, kind: str) -> Any:
    """One account with a score that is stored as float32, as a frame or in a file."""
    data = pa.table({"account": pa.array([2**40], pa.int64()), "score": pa.array([2.0**40], pa.float32())})
    if kind == "frame":
        return data
    path = folder / f"t.{kind}"
    if kind == "parquet":
        pq.write_table(data, path)
    else:
        with duckdb.connect(str(path)) as connection:
            connection.register("data", data)
            connection.execute("CREATE TABLE t AS SELECT * FROM data")
    return path


@pytest.mark.parametrize("kind", ["frame", "parquet", "duckdb"])
@pytest.mark.parametrize("key", ["score", "CASE WHEN score < 100 THEN score ELSE account END", "account"])
def test_a_stored_float32_makes_no_row_count_many_times(kind: str, key: str, tmp_path: Path) -> None:
    """threat:A34 one row met 5,000 neighbours of 2^40, which are one float32."""
    curator = opened(accounts(tmp_path, kind), public={"p": NEIGHBOURS})
    plan = curator.preview(BY_CODE.format(key), epsilon=1).plan
    assert exact_cells(curator._engine, plan).cells[0][0].tolist() == [1]


def test_a_public_float32_key_meets_only_its_equals(tmp_path: Path) -> None:
    data = pa.table({"account": pa.array([2**24 - 1, 2**24, 2**24 + 1], pa.int64())})
    public = {"p": pa.table({"code": pa.array([2.0**24], pa.float32())})}
    curator = opened(data, public=public)
    plan = curator.preview(BY_CODE.format("account"), epsilon=1).plan
    assert exact_cells(curator._engine, plan).cells[0][0].tolist() == [1]


def test_sessions_and_ibis_join_in_the_same_types(tmp_path: Path) -> None:
    """threat:A34 every way to ask reads one join."""
    curator = opened(accounts(tmp_path, "frame"), public={"p": NEIGHBOURS})
    watch = curator.watch(threshold=100, epsilon=500)
    assert not watch.above(BY_CODE.format("score"))
    t, p = curator.table("t"), curator.table("p")
    joined = t.join(p, t.score == p.code)
    plan = curator.preview(joined.aggregate(n=joined.count()), epsilon=1).plan
    assert exact_cells(curator._engine, plan).cells[0][0].tolist() == [1]


def test_a_collation_of_the_file_decides_nothing(tmp_path: Path) -> None:
    """threat:A12 a group that the collation calls 'ANN' was given as 'Ann', which is no declared value: a charged
    question failed where the rows held it."""
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE t (name VARCHAR COLLATE NOCASE)")
        connection.execute("INSERT INTO t VALUES ('Ann'), ('ANN'), ('ann')")
    curator = opened(tmp_path / "t.duckdb", values={"name": ["ANN", "bob"]})
    plan = curator.preview("SELECT name, COUNT(*) AS n FROM t GROUP BY name", epsilon=1).plan
    assert exact_cells(curator._engine, plan).cells[0][0].tolist() == [1, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_every_column_has_the_engines_type_of_its_declared_one(kind: str, world: World) -> None:
    """No narrower type is computed with: above all no float32."""
    described = world.engine._connection.execute(f"DESCRIBE t{KINDS.index(kind)}").fetchall()
    assert [row[1] for row in described] == ["BIGINT", ENGINE[world.types[kind]]]
