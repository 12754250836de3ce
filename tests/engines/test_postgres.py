"""Questions to a PostgreSQL database, from lapwing.toml and from Python, by a role that may SELECT and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import lapwing as lw
from lapwing.cli.draft import draft_served
from lapwing.curator import load
from lapwing.engines.postgres_dialect import postgres_dialect
from lapwing.errors import EngineFailed, LapwingError, Misconfigured, Refused
from lapwing.expressions.forms import Lower, Upper
from support.hosts import PostgresHost
from support.postgres import PostgresServer

ROWS = """
SELECT i % 300, CASE WHEN i % 2 = 0 THEN 'F' ELSE 'M' END, i % 90, now(), i % 3 FROM generate_series(1, 600) AS i
"""
COUNT = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"
TOML = """
[budget]
epsilon = 10

[tables.visits]
source = "{url}"
table = "clinic.visits"
unit = "pid"
rows_per_unit = 2

[tables.visits.columns]
pid = {{ type = "integer" }}
sex = {{ type = "text", values = ["F", "M"] }}
cost = {{ type = "real", bounds = [0, 100] }}

[public.regions]
source = "{url}"
table = "clinic.regions"
"""


@pytest.fixture
def host(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresHost]:
    made = PostgresHost(postgres)
    for statement in (
        "CREATE SCHEMA clinic",
        "CREATE TABLE clinic.visits (pid int, sex char(1), cost numeric, day timestamptz, region int)",
        f"INSERT INTO clinic.visits {ROWS}",
        "CREATE TABLE clinic.regions (code int, name text)",
        "INSERT INTO clinic.regions VALUES (0, 'north'), (1, 'south'), (2, 'west')",
        f"GRANT USAGE ON SCHEMA clinic TO {made.user}",
        f"GRANT SELECT ON clinic.visits, clinic.regions TO {made.user}",
    ):
        made.run(statement)
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    yield made
    made.close()


def place(host: PostgresHost) -> str:
    """The address, without its password."""
    user, _, rest = host.url.partition("@")
    return f"{user.rpartition(':')[0]}@{rest}"


def written(host: PostgresHost, folder: Path, url: str | None = None) -> Path:
    file = folder / "lapwing.toml"
    file.write_text(TOML.format(url=url or place(host)))
    return file


def opened(host: PostgresHost, folder: Path, **more: Any) -> Any:
    facts: dict[str, Any] = {
        "unit": "pid",
        "rows_per_unit": 2,
        "values": {"sex": ["F", "M"]},
        "bounds": {"cost": (0, 100)},
    }
    budget, ledger = lw.Budget(epsilon=100), folder / "ledger.db"
    return lw.open(place(host), table="clinic.visits", budget=budget, ledger=ledger, **facts, **more)


def test_a_steward_declares_a_table_of_a_server(host: PostgresHost, tmp_path: Path) -> None:
    with load(written(host, tmp_path)) as curator:
        answer = curator.sql(COUNT, epsilon=5)
        assert answer.to_arrow()["sex"].to_pylist() == ["F", "M"]
        joined = "SELECT r.name, COUNT(*) AS n FROM visits v JOIN regions r ON v.pid = r.code GROUP BY r.name"
        assert len(curator.sql(joined, epsilon=1)) == 3
    assert not list(tmp_path.glob("?*.lapwing"))


def test_python_opens_a_table_of_a_server(host: PostgresHost, tmp_path: Path) -> None:
    with opened(host, tmp_path) as curator:
        frame = curator.sql(COUNT, epsilon=90).to_pandas()
        assert [abs(n - 300) < 20 for n in frame["n"]] == [True, True]
        assert curator.sql("SELECT SUM(cost) AS s FROM visits WHERE YEAR(day) > 1900", epsilon=1)
        assert curator.preview("SELECT COUNT(DISTINCT visits.pid) AS n FROM clinic.visits", epsilon=1)
    with pytest.raises(Misconfigured, match="Say where their ledger is"):
        lw.open(place(host), table="clinic.visits", unit="pid", budget=lw.Budget(epsilon=1))


def test_init_drafts_a_table_of_a_server(host: PostgresHost, tmp_path: Path) -> None:
    """No value is read; what is drafted is served after its review."""
    host.run("ALTER TABLE clinic.visits ADD COLUMN note jsonb")
    plain = host.url.replace(f":{host.password}@", "@")
    text = draft_served(plain, "clinic.visits", "PID", Decimal(1), Decimal(0))
    assert f'source = "{plain}"\ntable = "clinic.visits"\n' in text
    assert 'unit = "pid"' in text
    assert ('"note" = ' in text, '# "note": jsonb; cast it in a view\n' in text) == (False, True)
    assert "change this whenever rows change" in text
    file = tmp_path / "lapwing.toml"
    file.write_text(text)
    with load(file) as curator:
        assert len(curator.sql("SELECT COUNT(DISTINCT pid) AS n FROM clinic.visits", epsilon=0.5)) == 1
    with pytest.raises(Misconfigured, match="are left out: cast them in a view"):
        draft_served(plain, "clinic.visits", "note", Decimal(1), Decimal(0))
    with pytest.raises(Misconfigured, match="holds a password"):
        draft_served(host.url, "clinic.visits", "pid", Decimal(1), Decimal(0))
    with pytest.raises(Misconfigured, match="`--table` is for a PostgreSQL database"):
        draft_served("visits.parquet", "visits", "pid", Decimal(1), Decimal(0))


def test_a_unit_of_a_type_that_is_left_out_says_so(host: PostgresHost, tmp_path: Path) -> None:
    host.run("ALTER TABLE clinic.visits ADD COLUMN note jsonb")
    with pytest.raises(Misconfigured, match="are left out: cast the unit to text in a view"):
        lw.open(host.url, table="clinic.visits", unit="note", budget=lw.Budget(1), ledger=tmp_path / "l.db")


def test_a_password_in_a_file_is_refused_and_not_repeated(host: PostgresHost, tmp_path: Path) -> None:
    """threat:A13"""
    with pytest.raises(Misconfigured, match="PGPASSWORD") as caught:
        load(written(host, tmp_path, "postgresql://ann:sesame@127.0.0.1:5/x"))
    assert "sesame" not in str(caught.value)
    assert "tables.visits.source" in str(caught.value)


def test_the_ledger_and_the_log_have_no_secret(
    host: PostgresHost, tmp_path: Path, postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """threat:A13 the password is in neither, nor is the seed of the keyed hash in the statements of the server."""
    with caplog.at_level("DEBUG"), load(written(host, tmp_path)) as curator:
        curator.sql(COUNT, epsilon=1)
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert postgres.password.encode() not in kept
    assert postgres.password not in caplog.text + repr(curator)


def test_a_changed_schema_pauses_until_a_version_is_declared(host: PostgresHost, tmp_path: Path) -> None:
    with opened(host, tmp_path) as curator:
        curator.sql(COUNT, epsilon=1)
        host.run("INSERT INTO clinic.visits VALUES (1, 'F', 1, now(), 1)")  # rows are the steward's to declare
        curator.sql(COUNT, epsilon=2)
        host.run("ALTER TABLE clinic.visits ADD COLUMN more int")
        before = curator.ledger.remaining
        with pytest.raises(Misconfigured, match="changed without a new version"):
            curator.sql(COUNT, epsilon=3)
        assert curator.ledger.remaining == before
    with opened(host, tmp_path, version="2") as curator:
        assert len(curator.sql(COUNT, epsilon=1)) == 2


def test_every_query_of_an_answer_sees_one_state(host: PostgresHost, tmp_path: Path) -> None:
    """Quantiles have a query of their own. Between the two somebody empties the table."""
    with opened(host, tmp_path) as curator:
        engine, texts = curator._engine, []
        inner = engine.snapshot

        @contextmanager
        def watched() -> Iterator[Any]:
            with inner() as fetch:

                def fetch_and_empty(query: Any) -> Any:
                    found = fetch(query)
                    texts.append(found.num_rows)
                    host.run("DELETE FROM clinic.visits")
                    return found

                yield fetch_and_empty

        engine.snapshot = watched
        curator.sql("SELECT COUNT(*) AS n, MEDIAN(cost) AS m FROM visits", epsilon=1, check=0)
    assert len(texts) == 2
    assert texts[1] > 1


def test_a_failure_after_the_charge_is_one_sentence(host: PostgresHost, tmp_path: Path) -> None:
    """gate:G34 the table is taken away between the charge and the query: charged, and nothing is told."""
    with opened(host, tmp_path) as curator:
        inner = curator._engine.snapshot

        def revoked() -> Any:
            host.run(f"REVOKE SELECT ON clinic.visits FROM {host.user}")
            return inner()

        curator._engine.snapshot = revoked
        before = curator.ledger.remaining
        with pytest.raises(EngineFailed, match="could not finish this question") as caught:
            curator.sql(COUNT, epsilon=1, check=0)
        assert "clinic" not in str(caught.value)
        assert curator.ledger.remaining != before


def test_what_cannot_be_read_says_what_to_grant(host: PostgresHost, tmp_path: Path) -> None:
    host.run(f"REVOKE SELECT ON clinic.visits FROM {host.user}")
    with pytest.raises(Misconfigured, match="GRANT SELECT ON"):
        opened(host, tmp_path)
    with pytest.raises(Misconfigured, match=r"has no table `clinic\.nowhere`"):
        lw.open(place(host), table="clinic.nowhere", unit=None, budget=lw.Budget(epsilon=1), ledger=tmp_path / "l.db")
    with pytest.raises(Misconfigured, match="say which table"):
        lw.open(place(host), unit=None, budget=lw.Budget(epsilon=1), ledger=tmp_path / "l.db")
    host.run(f"GRANT SELECT ON clinic.visits TO {host.user}")
    with pytest.raises(Misconfigured, match="`memory` is for files"):
        opened(host, tmp_path, memory="1GB")


def test_tables_of_two_places_are_refused(host: PostgresHost, tmp_path: Path) -> None:
    (tmp_path / "stays.csv").write_text("pid\n1\n")
    data = {"visits": place(host), "stays": tmp_path / "stays.csv"}
    with pytest.raises(Misconfigured, match="in different places: DuckDB, PostgreSQL"):
        lw.open(
            data,
            table={"visits": "clinic.visits"},
            unit="pid",
            types={"stays": {"pid": "integer"}},
            budget=lw.Budget(epsilon=1),
            ledger=tmp_path / "l.db",
        )


def test_a_server_without_letters_refuses_lower_before_the_charge(
    host: PostgresHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A form that an engine lacks: its reason is told, and nothing is charged."""
    monkeypatch.setattr("lapwing.engines.postgres._COLLATIONS", ())
    with opened(host, tmp_path) as curator:
        before = curator.ledger.remaining
        with pytest.raises(Refused, match="needs a collation that knows letters") as caught:
            curator.sql("SELECT COUNT(*) FROM visits WHERE LOWER(sex) = 'f'", epsilon=1)
        assert "Nothing was charged" in str(caught.value)
        assert curator.ledger.remaining == before
        assert len(curator.sql(COUNT, epsilon=1)) == 2
    assert not callable(postgres_dialect(None).forms[Lower])
    assert not callable(postgres_dialect(None).forms[Upper])


def test_a_server_that_went_away_is_told_before_the_charge(host: PostgresHost, tmp_path: Path) -> None:
    with opened(host, tmp_path) as curator:
        host.run(f"ALTER ROLE {host.user} NOLOGIN")
        host.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", host.user)
        before = curator.ledger.remaining
        with pytest.raises(LapwingError, match=r"cannot be reached.*Nothing was charged"):
            curator.sql(COUNT, epsilon=1)
        assert curator.ledger.remaining == before


def test_nothing_is_left_on_the_server(host: PostgresHost, tmp_path: Path) -> None:
    known = (
        "SELECT COUNT(*) FROM pg_class UNION ALL SELECT COUNT(*) FROM pg_proc UNION ALL SELECT COUNT(*) FROM pg_type"
    )
    before = host.run(known).fetchall()
    with opened(host, tmp_path) as curator:
        curator.sql(COUNT, epsilon=1)
    assert host.run(known).fetchall() == before
    assert host.run("SELECT COUNT(*) FROM pg_stat_activity WHERE usename = %s", host.user).fetchone() == (0,)
