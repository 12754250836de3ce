"""Exact sums on Spark: numbers are cut into parts of 16 bits, and come out whole."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from lapwing.engines.source import SparkFrame
from lapwing.engines.spark import SparkEngine
from lapwing.engines.spark_dialect import SPARK
from lapwing.expressions import forms
from lapwing.expressions.table import Field, Table
from lapwing.expressions.types import Type
from support.cells import run
from support.hosts import SALT

MOSTS = (0, 1, 7, 2**16 - 1, 2**16, 2**16 + 1, 2**31, 2**32 - 1, 2**32, 3 * 2**40, 2**48 - 1, 2**48, 2**62 - 1)
TABLE = Table("t", tuple(Field(f"x{place}", Type.INTEGER) for place in range(len(MOSTS))), None)


def values(most: int) -> list[int | None]:
    """The largest and the smallest, more than once, what is beside the borders of parts, NULL."""
    near = {sign * (1 << bits) + shift for bits in (0, 16, 32, 48) for sign in (1, -1) for shift in (-1, 0, 1)}
    return [most] * 5 + [-most] * 2 + [one for one in sorted(near) if abs(one) <= most] + [0, None]


def summed(node: exp.Expression, most: int | None) -> exp.Expression:
    return forms.Wide(this=forms.ExactSum(this=node, most=most))


def test_sums_of_parts_are_sums_of_the_numbers(spark: Any) -> None:
    many = max(len(values(most)) for most in MOSTS)
    data = {f"x{place}": (values(most) + [None] * many)[:many] for place, most in enumerate(MOSTS)}
    rows = pa.table({name: pa.array(column, pa.int64()) for name, column in data.items()})
    engine = SparkEngine([(TABLE, SparkFrame(spark.createDataFrame(rows).repartition(3)))], salt=SALT)
    columns = [summed(exp.column(f"x{place}"), most) for place, most in enumerate(MOSTS)]
    wide = [summed(exp.column(f"x{place}"), None) for place in range(len(MOSTS))]
    named = [exp.alias_(node, f"v{place}") for place, node in enumerate([*columns, *wide])]
    [found] = run(engine, exp.select(*named).from_("t")).to_pylist()
    expected = [sum(one for one in column if one is not None) for column in data.values()]
    assert [int(value) for value in found.values()] == expected * 2


def test_a_sum_of_nothing_is_null(spark: Any) -> None:
    rows = pa.table({f"x{place}": pa.array([None], pa.int64()) for place in range(len(MOSTS))})
    engine = SparkEngine([(TABLE, SparkFrame(spark.createDataFrame(rows)))], salt=SALT)
    columns = [exp.alias_(summed(exp.column(f"x{i}"), most), f"v{i}") for i, most in enumerate(MOSTS)]
    [found] = run(engine, exp.select(*columns).from_("t")).to_pylist()
    assert set(found.values()) == {None}


@pytest.mark.parametrize("most", MOSTS)
def test_no_part_reaches_64_bits_before_2_to_the_47_rows(most: int) -> None:
    """By arithmetic: a part of n bits, added up 2^47 times."""
    text = SPARK.write(summed(exp.column("x"), most)).text
    parts = text.count("TRY_SUM")
    lowest = [value >> 16 * (parts - 1) for value in (most, -most)]
    assert parts == max(1, -(-most.bit_length() // 16))
    assert all(abs(one) * 2**47 <= 2**63 for one in (*lowest, 2**16 - 1))
    assert "DECIMAL" in SPARK.write(forms.ExactSum(this=exp.column("x"), most=2**62)).text


@pytest.mark.parametrize("most", [1, 2**40])
def test_sums_of_parts_do_not_add_decimals(most: int) -> None:
    text = SPARK.write(forms.ExactSum(this=exp.column("x"), most=most)).text
    assert "TRY_SUM(CAST" not in text
    assert text.count("TRY_SUM(") == (1 if most == 1 else 3)


def test_a_long_number_is_written_once() -> None:
    """Its text in every part would make the query several times as long, and Spark takes seconds to read it."""
    node = forms.Greatest(expressions=[exp.column("x" * 100) for _ in range(30)])
    text = SPARK.write(forms.ExactSum(this=node, most=2**40)).text
    assert text.count("TRY_SUM(") == 1
    assert "DECIMAL" in text
