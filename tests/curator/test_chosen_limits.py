"""Limits and bounds that a question chooses: who may choose what, identity, stored answers, retries, checks, doors."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import lapwing as lw
from lapwing.cli.main import app
from lapwing.curator import Curator, load
from lapwing.errors import Misconfigured, Refused
from support.visits import open_visits, write_visits

SUM = "SELECT sex, SUM(cost) AS s FROM visits GROUP BY sex"
BY_SITE = "SELECT site, COUNT(*) AS n FROM visits GROUP BY site"
DECLARED: dict[str, Any] = {"rows_per_unit": 8, "groups_per_unit": 3, "budget": lw.Budget(epsilon=100)}
pytestmark = [pytest.mark.usefixtures("seeded"), pytest.mark.filterwarnings("ignore::lapwing.errors.WeakBudget")]


def opened(**changes: Any) -> Curator:
    return open_visits(**{**DECLARED, **changes})


def limits(answer: Any) -> tuple[int, int]:
    facts = answer.to_dict()["limits"]
    return facts["rows_per_unit"], facts["groups_per_unit"]


def error(preview: Any) -> float:
    return max(preview.errors.values())


class TestMeaning:
    def test_they_take_the_place_of_what_is_declared(self) -> None:
        with opened() as curator:
            assert limits(curator.sql(BY_SITE, epsilon=1)) == (8, 3)
            assert limits(curator.sql(BY_SITE, epsilon=1, rows=2)) == (2, 3)
            assert limits(curator.sql(BY_SITE, epsilon=1, rows=20, groups=1)) == (20, 1)

    @pytest.mark.parametrize(
        ("terms", "factor"), [({"rows": 2}, 4), ({"groups": 1}, 2), ({"bounds": {"cost": (0, 10)}}, 10)]
    )
    def test_the_noise_is_that_of_the_declaration_that_says_the_same(self, terms: Any, factor: int) -> None:
        named = {"rows": "rows_per_unit", "groups": "groups_per_unit"}
        same = {named.get(name, name): value for name, value in terms.items()}
        with opened() as curator, opened(**same) as declared:
            assert error(curator.preview(SUM, epsilon=1, **terms)) == error(declared.preview(SUM, epsilon=1))
            ratio = error(curator.preview(SUM, epsilon=1)) / error(curator.preview(SUM, epsilon=1, **terms))
            assert ratio == pytest.approx(factor, rel=1e-3)

    def test_the_engine_enforces_them(self) -> None:
        """At this price there is next to no noise: 40 people with 2 rows each, in 2 sites."""
        with opened(budget=lw.Budget(epsilon=10**6)) as curator:

            def total(**terms: Any) -> int:
                return round(sum(curator.sql(BY_SITE, epsilon=1000, **terms)["n"]))

            assert total() == 80
            assert total(groups=1) == 40
            one = curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon=1000, rows=1)
            assert round(one["n"][0]) == 40
            clipped = curator.sql("SELECT SUM(cost) AS s FROM visits", epsilon=1000, bounds={"cost": (0, 0.5)})
            assert clipped["s"][0] == pytest.approx(40, abs=1)

    def test_a_question_that_needs_a_limit_can_choose_it(self) -> None:
        with opened(rows_per_unit=None, bounds={}) as curator:
            with pytest.raises(Refused):
                curator.preview("SELECT SUM(cost) AS s FROM visits", epsilon=1)
            seen = curator.preview("SELECT SUM(cost) AS s FROM visits", epsilon=1, rows=2, bounds={"COST": (0, 10)})
            assert error(seen) == pytest.approx(60, abs=2)

    @pytest.mark.parametrize(
        ("ask", "line"),
        [
            (lambda curator: partial(curator.sql, "SELECT COUNT(*) AS n FROM visits", epsilon=1), "rows=10"),
            (lambda curator: partial(curator.sql, "SELECT name FROM visits GROUP BY name", epsilon=1), "groups=5"),
            (lambda curator: partial(curator.distribution, "sex", epsilon=1), "groups=1"),
        ],
    )
    def test_the_refusal_of_a_question_without_a_limit_says_so(self, ask: Any, line: str) -> None:
        rows = None if line.startswith("rows") else 2
        with opened(rows_per_unit=rows, groups_per_unit=None, budget=lw.Budget(epsilon=9, delta=1e-6)) as curator:
            with pytest.raises(Refused) as refused:
                ask(curator)()
            assert f"sk with {line}" in refused.value.instead
            name, number = line.split("=")
            assert ask(curator)(**{name: int(number)}) is not None

    def test_bounds_make_a_column_of_numbers_a_public_key(self) -> None:
        with opened(bounds={}) as curator:
            seen = curator.preview(
                "SELECT age, COUNT(*) AS n FROM visits GROUP BY age", epsilon=1, bounds={"age": (0, 9)}
            )
            assert seen.facts()["groups"] == 11  # and NULL

    def test_what_is_named_is_not_searched_for(self) -> None:
        with opened(rows_per_unit="auto", groups_per_unit="auto", bounds={"cost": "auto"}) as curator:
            seen = curator.preview(SUM, epsilon=1, rows=3, groups=1, bounds={"cost": (0, 10)})
            assert seen.missing == ()
            assert len(curator.preview(SUM, epsilon=1, rows=3, bounds={"cost": (0, 10)}).missing) == 1

    def test_a_subquery_with_one_row_per_unit_adds_up_as_many_rows(self) -> None:
        text = "SELECT SUM(c) AS s FROM (SELECT pid, SUM(cost) AS c FROM visits GROUP BY pid)"
        with opened() as curator:
            answer = curator.sql(text, epsilon=1, rows=2, groups=5)
            assert limits(answer) == (1, 1)
            assert "[0, 200]" in str(answer.explain())

    def test_joined_rows_have_them(self) -> None:
        """Two rows in each table are four joined rows, of which as many count as were chosen."""
        data = {name: pa.table({"pid": [1, 1, 2, 2], "x": [1, 2, 3, 4]}) for name in ("a", "b")}
        facts: dict[str, Any] = {"unit": "pid", "rows_per_unit": 2, "groups_per_unit": 1, "check": 0}
        with lw.open(data, budget=lw.Budget(epsilon=10**6), ledger=":memory:", **facts) as curator:
            text = "SELECT COUNT(*) AS n FROM a JOIN b USING (pid)"
            assert limits(curator.sql(text, epsilon=1)) == (4, 1)
            for rows in (1, 3):
                answer = curator.sql(text, epsilon=1000, rows=rows)
                assert (limits(answer), round(answer["n"][0])) == ((rows, 1), 2 * rows)

    def test_statements_batches_and_ibis_have_them(self) -> None:
        share = "SELECT site, n / SUM(n) OVER () AS p FROM (SELECT site, COUNT(*) AS n FROM visits GROUP BY site) AS q"
        with opened() as curator:
            computed = curator.sql(share, epsilon=1, rows=2, groups=1)
            assert [limits(release) for release in computed.parts] == [(2, 1)]
            batch = curator.batch([SUM, BY_SITE], epsilon=1, rows=2, groups=1, bounds={"cost": (0, 5)})
            assert [limits(release) for release in batch.releases] == [(2, 1), (2, 1)]
            table = curator.table("visits")
            assert limits(curator.sql(table.aggregate(n=table.count()), epsilon=1, rows=3)) == (3, 1)
            assert isinstance(table, ibis.Table)

    def test_distributions_and_marginals_have_them(self) -> None:
        with opened() as curator:
            wide = curator.distribution("age", cells=4, epsilon=1)
            other = curator.distribution("age", cells=4, epsilon=1, rows=2, groups=1, bounds={"age": (0, 40)})
            assert limits(wide) == (8, 3)
            assert limits(other) == (2, 1)
            assert other["age_to"][-1] == 40
            tables = curator.marginals(["sex", "site"], epsilon=1, rows=2, groups=1)
            assert "at most 2 rows of a pid" in str(tables.explain())


CEILINGS: dict[str, Any] = {"most_rows": 10, "most_groups": 5, "widest": {"cost": (-10, 200)}}
ABOVE = [
    ({"rows": 11}, "11 was chosen, and at most 10 may be. Write rows=10."),
    ({"groups": 6}, "6 was chosen, and at most 5 may be. Write groups=5."),
    (
        {"bounds": {"cost": (0, 201)}},
        '[0, 201] was chosen, and at most [-10, 200] may be. Write bounds={"cost": (-10, 200)}.',
    ),
]


class TestRefusals:
    @pytest.mark.parametrize(("terms", "said"), ABOVE)
    def test_above_a_ceiling_with_both_numbers_and_a_line_that_works(self, terms: Any, said: str) -> None:
        with opened(**CEILINGS) as curator:
            for ask in (curator.sql, curator.preview):
                with pytest.raises(Refused) as refused:
                    ask(SUM, epsilon=1, **terms)
                assert said in str(refused.value)
            with pytest.raises(Refused):
                curator.batch([SUM], epsilon=1, **terms)
            with pytest.raises(Refused):
                curator.distribution("cost", epsilon=1, **terms)
            assert not curator.budget.spent
            line = said.split("Write ")[1].removesuffix(".")
            curator.preview(SUM, epsilon=1, **eval(f"dict({line})"))

    def test_a_ceiling_of_another_table_does_not_matter(self) -> None:
        data = {name: pa.table({"pid": [1, 2], "x": [1, 2]}) for name in ("a", "b")}
        with lw.open(
            data, unit="pid", rows_per_unit=2, most_rows={"a": 3}, budget=lw.Budget(epsilon=1), ledger=":memory:"
        ) as curator:
            assert curator.preview("SELECT COUNT(*) AS n FROM b", epsilon=1, rows=4)
            with pytest.raises(Refused, match="at most 3"):
                curator.preview("SELECT COUNT(*) AS n FROM a JOIN b USING (pid)", epsilon=1, rows=4)
            with pytest.raises(Refused, match=r'Write bounds=\{"a.x": \(0, 500\)\}'):
                curator.preview("SELECT SUM(x) AS s FROM b", epsilon=1, bounds={"x": (0, 1)})
            assert curator.preview("SELECT SUM(x) AS s FROM b", epsilon=1, bounds={"b.x": (0, 1)})

    @pytest.mark.parametrize(
        ("terms", "kind", "said"),
        [
            ({"rows": 0}, Misconfigured, "`rows` is 0"),
            ({"groups": 1.5}, Misconfigured, "`groups`"),
            ({"bounds": {"cost": (5, 1)}}, Misconfigured, "Swap them"),
            ({"bounds": {"cost": 5}}, Misconfigured, "two numbers"),
            ({"bounds": {1: (0, 5)}}, Refused, "no private table"),
            ({"bounds": {"costs": (0, 5)}}, Refused, "Did you mean `cost`?"),
            ({"bounds": {"sex": (0, 5)}}, Refused, "such a column of numbers"),
            ({"bounds": {"pid": (0, 5)}}, Refused, "such a column of numbers"),
        ],
    )
    def test_what_is_no_limit(self, terms: Any, kind: type[Exception], said: str) -> None:
        with opened() as curator, pytest.raises(kind, match=said.replace("?", r"\?")):
            curator.sql(SUM, epsilon=1, **terms)

    def test_where_every_row_is_a_unit(self) -> None:
        with opened(unit=None, rows_per_unit=None, groups_per_unit=None) as curator:
            for term in ("rows", "groups"):
                with pytest.raises(Refused, match="Leave it out"):
                    curator.sql(SUM, epsilon=1, **{term: 2})
            assert curator.preview(SUM, epsilon=1, bounds={"cost": (0, 5)})

    def test_auto_for_a_batch(self) -> None:
        with opened() as curator, pytest.raises(Misconfigured, match="is by column here"):
            curator.batch([SUM], epsilon=1, bounds="auto")  # type: ignore[typeddict-item]

    @pytest.mark.parametrize(
        "wrong", [{"most_rows": 7}, {"most_groups": 2}, {"widest": {"cost": (1, 500)}}, {"widest": {"sex": (0, 1)}}]
    )
    def test_a_ceiling_below_what_is_declared(self, wrong: Any) -> None:
        with pytest.raises(Misconfigured):
            opened(**wrong)


class TestIdentity:
    def test_other_limits_are_other_questions(self) -> None:
        with opened() as curator:
            asked = [{}, {"rows": 2}, {"groups": 1}, {"bounds": {"cost": (0, 5)}}, {"rows": 3}]
            assert [bool(curator.sql(SUM, epsilon=1, **terms).cost) for terms in asked] == [True] * 5  # type: ignore[arg-type]
            assert [bool(curator.sql(SUM, epsilon=1, **terms).cost) for terms in asked] == [False] * 5  # type: ignore[arg-type]

    def test_every_number_of_groups_is_another_question(self) -> None:
        with opened() as curator:
            for groups in (1, 2, 3):
                assert curator.sql(BY_SITE, epsilon=1, groups=groups).cost

    def test_the_same_limits_named_and_declared_are_one_question(self) -> None:
        """SEX has two groups, so any limit of two or more is the same table."""
        with opened() as curator:
            first = curator.sql(SUM, epsilon=1)
            for terms in ({"rows": 8}, {"groups": 2}, {"groups": 9}, {"bounds": {"cost": (0, 100.0)}}):
                again = curator.sql(SUM, epsilon=1, **terms)  # type: ignore[arg-type]
                assert not again.cost
                assert again["s"] == first["s"]

    def test_bounds_of_what_is_not_used_change_nothing(self) -> None:
        with opened() as curator:
            curator.sql(BY_SITE, epsilon=1)
            assert not curator.sql(BY_SITE, epsilon=1, bounds={"cost": (0, 1)}).cost

    @pytest.mark.parametrize("terms", [{"rows": 2}, {"groups": 1}, {"bounds": {"cost": (0, 5)}}])
    def test_a_retry_key_stands_for_its_limits(self, terms: Any) -> None:
        with opened() as curator:
            paid = curator.sql(SUM, epsilon=1, key="k", refresh=True, **terms)
            assert curator.sql(SUM, epsilon=1, key="k", refresh=True, **terms).entry == paid.entry
            for other in ({}, {"rows": 5}, {"bounds": {"cost": (0, 6)}}):
                with pytest.raises(Misconfigured, match="another question"):
                    curator.sql(SUM, epsilon=1, key="k", refresh=True, **other)  # type: ignore[arg-type]

    def test_a_check_serves_its_own_limits_alone(self) -> None:
        with opened(check=None) as curator:

            def is_missing(**terms: Any) -> bool:
                return curator.preview(BY_SITE, epsilon=1, refresh=True, **terms).check is not None

            curator.sql(BY_SITE, epsilon=1, rows=2, groups=1)
            assert not is_missing(rows=2, groups=1)
            assert is_missing(rows=1, groups=1)
            assert is_missing(rows=3, groups=1)
            assert is_missing(rows=2, groups=2)
            assert is_missing()
            answer = curator.sql(BY_SITE, epsilon=1, rows=1, groups=1)
            assert answer.check.target.limits.rows == 1  # type: ignore[union-attr]


class TestDoors:
    def test_a_file_declares_ceilings_and_says_them(self, tmp_path: Path) -> None:
        write_visits(tmp_path)
        (tmp_path / "lapwing.toml").write_text(TOML)
        with load(tmp_path / "lapwing.toml") as curator:
            assert "up to 10 may be chosen" in str(curator.describe())
            assert "up to [0, 500] may be chosen" in str(curator.describe())
            assert curator.describe().to_dict()["tables"]["visits"]["most_rows"] == 10
        (tmp_path / "lapwing.toml").write_text(TOML.replace("most_rows = 10", "most_rows = 1"))
        with pytest.raises(Misconfigured, match=r"lapwing.toml: tables.visits: `rows_per_unit` is more"):
            load(tmp_path / "lapwing.toml")

    def test_the_command_line_has_them(self, tmp_path: Path) -> None:
        write_visits(tmp_path)
        (tmp_path / "lapwing.toml").write_text(TOML)

        def asked(*options: str) -> Any:
            line = ["preview", SUM, "--epsilon", "1", "--json", "-f", str(tmp_path / "lapwing.toml"), *options]
            return CliRunner().invoke(app, line)

        plain = json.loads(asked().output)["errors"]["SUM(cost)"]
        chosen = json.loads(asked("--rows", "1", "--groups", "1", "--bounds", "cost=0:50").output)
        assert plain / chosen["errors"]["SUM(cost)"] == pytest.approx(8, rel=1e-2)
        twice = asked("--bounds", "cost=0:50", "--bounds", "age=-1:1.5,visits.site=0:9")
        assert json.loads(twice.output)["errors"]["SUM(cost)"] == pytest.approx(plain / 2, rel=1e-2)
        assert "two numbers" in str(asked("--bounds", "cost=0").exception)
        assert "cost=0:500" in str(asked("--bounds", "cost=a:b").exception)
        assert 'Write bounds={"cost": (0, 500)}' in str(asked("--bounds", "cost=0:501").exception)


TOML = """
[budget]
epsilon = 10

[tables.visits]
source = "visits.parquet"
unit = "pid"
rows_per_unit = 2
groups_per_unit = 3
most_rows = 10

[tables.visits.columns]
pid = { type = "integer" }
sex = { type = "text", values = ["F", "M"] }
site = { type = "integer", values = [9, 10, 1000] }
cost = { type = "real", bounds = [0, 100], widest = [0, 500] }
age = { type = "integer", bounds = [0, 120] }
"""
