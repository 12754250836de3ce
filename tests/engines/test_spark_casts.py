"""Texts as other types on Spark: what DuckDB and PostgreSQL read of the common ways to write them, else NULL."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from engines.test_postgres_casts import TABLE, TEXTS, read
from lapwing.engines.source import SparkFrame
from lapwing.engines.spark import SparkEngine
from lapwing.engines.spark_dialect import cast_to
from lapwing.expressions.types import Type
from support.hosts import SALT, DuckDBHost

MORE = [
    *(
        "12.5e1",
        "1.25e1",
        "-0.5",
        "0.5",
        "-.5",
        "+.5",
        "5.e1",
        "1e-1",
        "5e-1",
        "4e-1",
        "9.3e18",
        "9.2e18",
        "1e+3",
        "1.0",
    ),
    *("0.4999999999999999999999999", "-0.4999999999999999999999999", " 0.50000000000000000000001 ", "0" * 40 + "7"),
    *("9223372036854775807.5", "-9223372036854775808.4", "-9223372036854775808.5", "1.5e-3", "0e0", "-0", "00.5e1"),
    *(
        "+",
        ".",
        "e5",
        ".e5",
        "1e3.5",
        "1e 3",
        "- 1",
        "\x0012",
        "12\x00",
        "\x1f12",
        "\x0b12\x0c",
        "\u00a012",
        "1L",
        "0x1p3",
    ),
    *("1d", "1f", "1.5D", "Infinity5", "+infinity", "-NaN", "infinit", "true\t", "\ttrue", "YES", "No", "T", "F", "00"),
    *("2020-02-29 foo", "2020-02-29foo", "2020-02-29T", "2020-02-29 10:00:00.123456789", "2020-02-29  10:00", "5-1-1"),
    *("2020/2/9", "2020.2.9", "2020 2 9", "2020-02/29", "1/2/2020", "2020-02-29 10:00:00-0230", "2020-2-029", "2020"),
    *("\n2020-02-29", "2020-02-29 1:00:00 AM", "0999-12-31 23:59:59", "2020-00-01", "2020-01-00", "2020-1-1 0:0"),
]
LONG = {"1" + "0" * 70, "9" * 400}
"""Numbers of more than 60 digits, which are not read as an integer."""


@pytest.mark.parametrize("kind", ["BIGINT", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP"])
def test_texts_are_read_as_duckdb_reads_them_or_not_at_all(kind: str, spark: Any) -> None:
    """'12.5' was 13 on DuckDB and on PostgreSQL, and NULL on Spark."""
    wanted = exp.DType[kind]
    endless = kind in ("DATE", "TIMESTAMP")  # DuckDB has such dates, and Python does not
    texts = [*(text for text in (*TEXTS, *MORE) if not (endless and "inf" in text.lower())), None]
    data = pa.table({"i": pa.array(range(len(texts))), "s": pa.array(texts)})
    engine = SparkEngine([(TABLE, SparkFrame(spark.createDataFrame(data)))], salt=SALT)
    ours = DuckDBHost().engine([(TABLE, data)])
    found = zip(texts, read(ours, wanted), read(engine, wanted), strict=True)
    differing = [(text, mine, theirs) for text, mine, theirs in found if mine != theirs and mine == mine]
    assert [one for one in differing if one[0] not in LONG] == []
    assert all(theirs is None for _, _, theirs in differing)


@pytest.mark.parametrize("kind", ["BIGINT", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP_NTZ"])
def test_no_pattern_goes_back_over_a_long_text(kind: str) -> None:
    """threat:A26 quantifiers without an end are possessive, or the last thing that is matched."""
    patterns = re.findall(r"'((?:\(\?s\))?\\\\A.*?)'", cast_to("s", Type.TEXT, kind))
    assert patterns
    for pattern in patterns:
        single = re.sub(r"\[[^\]]*\]|\\\\s", "c", pattern.removesuffix(r".*\\z"))
        assert not re.search(r"[*+]", re.sub(r"(?:c[*+]|\})\+", "", single)), pattern
