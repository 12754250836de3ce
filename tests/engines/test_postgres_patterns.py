"""A pattern of the language matches on PostgreSQL what it matches in DuckDB's RE2."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lapwing.engines.postgres_dialect import translate
from lapwing.expressions.forms import HasMatch
from lapwing.expressions.operators.text import is_linear
from lapwing.expressions.table import Field, Table
from lapwing.expressions.types import Type
from support.cells import run
from support.hosts import DuckDBHost, PostgresHost
from support.postgres import PostgresServer

PATTERNS = [
    *("a", "^a", "a$", "^$", ".", "a.b", "a|b", "^(a|bc)+$", "[a-c]", "[^a-c]", r"\d", r"\D", r"\w+", r"^\W$", r"\s"),
    *(
        r"\S",
        r"[\d\-]",
        r"[\D]",
        r"[^\w]",
        r"[\s\d]",
        r"a{2}",
        "a{2,}",
        "a{1,3}b",
        r"\.",
        r"\\",
        r"\$",
        r"\(",
        "(a)(b)?",
    ),
    *(
        "a*",
        "b+",
        "[.]",
        "[$]",
        r"[\]]",
        r"\/",
        "é",
        "[é-ü]",
        r"[\W\d]",
        "^.$",
        "(ab|cd){1,2}$",
        "",
        "a|",
        r"\-",
        "[a^]",
    ),
]
TEXTS = [
    *(
        "",
        "a",
        "b",
        "ab",
        "abc",
        "aab",
        "aaab",
        "bc",
        "cd",
        "abcd",
        "a b",
        "a\nb",
        "\n",
        "\t",
        "\v",
        "\r",
        "1",
        "a1",
        "-",
    ),
    *(".", "$", "\\", "(", "]", "/", "é", "ü", "É", "\u0664", "\u00a0", "🙂", "_", "^", "A", "aé", " ", "ab\n", None),
]
TABLE = Table("t", (Field("i", Type.INTEGER), Field("s", Type.TEXT)), None)


def test_patterns_match_what_they_match_in_duckdb(postgres: PostgresServer) -> None:
    """threat:A9 PostgreSQL's own classes follow the locale, and its dot matches line breaks."""
    admitted = [pattern for pattern in PATTERNS if is_linear(pattern)]
    assert len(admitted) > 40
    host = PostgresHost(postgres)
    data = pa.table({"i": pa.array(range(len(TEXTS))), "s": pa.array(TEXTS)})
    engine, ours = host.engine([(TABLE, data)]), DuckDBHost().engine([(TABLE, data)])
    nodes = [HasMatch(this=exp.column("s"), expression=exp.Literal.string(f"({one})")) for one in admitted]
    columns = [exp.alias_(node, f"v{place}") for place, node in enumerate(nodes)]
    query = exp.select("i", *columns).from_("t")
    mine, theirs = (run(one, query.copy()).sort_by("i") for one in (ours, engine))
    for place, pattern in enumerate(admitted):
        assert theirs.column(f"v{place}").to_pylist() == mine.column(f"v{place}").to_pylist(), pattern
    engine.close()
    host.close()


def test_classes_are_written_out() -> None:
    assert translate(r"(a.b)") == r"(a[^\n]b)"
    assert translate(r"(\d)") == "([0-9])"
    assert translate(r"([^\s])") == r"([^\U00000009-\U0000000A\U0000000C-\U0000000D\U00000020])"
