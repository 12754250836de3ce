"""Groups in the order of their keys, as plain Python sorts them."""

from __future__ import annotations

from datetime import date, datetime
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lapwing.errors import Bug
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Type
from lapwing.plan import add_noise as groups_module
from lapwing.plan.add_noise import found_groups, integers, public_groups
from lapwing.plan.plan import Plan, make_plan
from lapwing.plan.question import Question
from lapwing.privacy import ZCDP, Loss, Pure
from lapwing.sql import read_sql
from support.sweeps import sweep

COLUMNS: dict[Type, tuple[Any, list[Any]]] = {
    Type.INTEGER: (pa.int32(), [-5, 0, 3, 2**31 - 1]),
    Type.TEXT: (pa.string(), ["", "A", "a", "é", "z", "🦆"]),
    Type.BOOLEAN: (pa.bool_(), [False, True]),
    Type.DATE: (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
    Type.TIMESTAMP: (pa.timestamp("us"), [*map(datetime.fromisoformat, ("1970-01-01", "2024-02-29T12:00:00.000005"))]),
}


def planned(types: tuple[Type, ...], *, public: bool) -> Plan:
    fields = [Field(f"x{i}", t, values=(*COLUMNS[t][1], None) if public else ()) for i, t in enumerate(types)]
    names = ", ".join(f.name for f in fields)
    loss: Loss = Pure(1) if public else ZCDP(1, 1e-6)
    question = read_sql(
        f"SELECT {names}, COUNT(*) AS n FROM t GROUP BY {names}", Catalog((Table("t", tuple(fields), None),))
    )
    assert isinstance(question, Question)
    plan = make_plan(question, loss)
    assert isinstance(plan, Plan)
    return plan


def rows_of(types: tuple[Type, ...], keys: list[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*keys, strict=True) if keys else [[] for _ in types]
    return pa.table({f"k{i}": pa.array(list(c), COLUMNS[types[i]][0]) for i, c in enumerate(columns)})


def some_keys(random: Random, types: tuple[Type, ...]) -> list[tuple[Any, ...]]:
    made = {tuple(random.choice([*COLUMNS[t][1], None]) for t in types) for _ in range(random.randrange(60))}
    return random.sample(sorted(made, key=repr), len(made))


def in_order(keys: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(keys, key=lambda key: [(v is None, 0 if v is None else v) for v in key])


@pytest.mark.parametrize("seed", sweep(range(20), 6))
def test_found_groups_are_in_the_order_of_plain_python(seed: int) -> None:
    """Ascending, key by key, NULL last; and every row finds its group."""
    random = Random(seed)
    types = (*random.choices(list(COLUMNS), k=random.randint(0, 3)), Type.INTEGER)
    keys = some_keys(random, types)
    groups, columns = found_groups(planned(types, public=False), rows_of(types, keys))
    assert list(zip(*columns, strict=True)) == in_order(keys)
    again = random.choices(keys, k=50) if keys else []
    places = groups.places(rows_of(types, again)).tolist()
    assert [in_order(keys)[place] for place in places] == again


@pytest.mark.parametrize("many", [0, 10_000], ids=["by Arrow", "by Python"])
@pytest.mark.parametrize("seed", sweep(range(10), 4))
def test_public_groups_are_in_the_order_of_their_values(seed: int, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "_MANY", many)
    random = Random(seed)
    types = tuple(random.choices(list(COLUMNS), k=random.randint(1, 4)))
    keys, plan = some_keys(random, types), planned(types, public=True)
    groups = public_groups(plan)
    assert groups.size == plan.group_count
    values = [[*COLUMNS[t][1], None] for t in types]
    by_hand = [int(np.ravel_multi_index([v.index(k) for v, k in zip(values, key, strict=True)], [*map(len, values)]))
               for key in keys]  # fmt: skip
    assert groups.places(rows_of(types, keys)).tolist() == by_hand


def test_a_group_that_was_not_asked_for_is_a_bug() -> None:
    """Fails closed: whatever the engine gives, nothing lands in another group."""
    types = (Type.TEXT,)
    groups, _ = found_groups(planned(types, public=False), rows_of(types, [("A",), ("z",)]))
    for one in (groups, public_groups(planned(types, public=True))):
        with pytest.raises(Bug):
            one.places(rows_of(types, [("nobody",)]))
    two = (Type.TEXT, Type.BOOLEAN)
    groups, _ = found_groups(planned(two, public=False), rows_of(two, [("A", True), ("z", False)]))
    with pytest.raises(Bug):
        groups.places(rows_of(two, [("A", False)]))
    nothing, _ = found_groups(planned(types, public=False), rows_of(types, []))
    with pytest.raises(Bug):
        nothing.places(rows_of(types, [(None,)]))


def test_many_keys_do_not_wrap() -> None:
    """Eleven keys of a hundred values have more combinations than 64 bits."""
    types = (Type.INTEGER,) * 11
    keys = [tuple((i * 37 + j) % 100 for j in range(11)) for i in range(100)]
    groups, columns = found_groups(planned(types, public=False), rows_of(types, keys))
    assert list(zip(*columns, strict=True)) == sorted(keys)
    assert [sorted(keys)[place] for place in groups.places(rows_of(types, keys))] == keys


@pytest.mark.parametrize("kind", [pa.int64(), pa.decimal128(38, 0)], ids=str)
@pytest.mark.parametrize("values", [[], [0, -1, 2**60], [2**61, 1], [-(2**63), 2**63 - 1], [-(10**37), 10**37]])
def test_integers_are_exact_however_large(values: list[int], kind: pa.DataType) -> None:
    if kind == pa.int64() and max(map(abs, values), default=0) > 2**63:
        values = [value % 2**62 for value in values]
    column = pa.chunked_array([pa.array(values, kind)], kind)
    assert integers(column).tolist() == values


@pytest.mark.parametrize("kind", [pa.int64(), pa.decimal128(38, 0)], ids=str)
def test_integers_of_a_part_and_of_several_parts_are_those(kind: pa.DataType) -> None:
    """Arrow may keep what was cut off; what is read starts at the part."""
    whole = pa.array(range(-5, 5), kind)
    column = pa.chunked_array([whole.slice(2, 3), whole.slice(7)], kind)
    assert integers(column).tolist() == [-3, -2, -1, 2, 3, 4]
    assert integers(pa.chunked_array([whole.slice(4, 4)], kind)).tolist() == [-1, 0, 1, 2]
    assert integers(pa.chunked_array([], kind)).tolist() == []


@pytest.mark.parametrize("kind", [pa.int16(), pa.uint64(), pa.float64(), pa.decimal128(20, 0)], ids=str)
def test_a_column_of_other_numbers_is_a_bug(kind: pa.DataType) -> None:
    with pytest.raises(Bug):
        integers(pa.chunked_array([pa.array([1, 2], kind)]))


def test_integers_of_32_bits_are_those() -> None:
    assert integers(pa.chunked_array([pa.array([1, -(2**31)], pa.int32())])).tolist() == [1, -(2**31)]
