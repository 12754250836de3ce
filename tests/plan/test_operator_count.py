"""How much work one unit can cause in a question: by its text and declared facts, never by rows."""

from __future__ import annotations

import pytest

from lapwing.plan.question import A_STEP, operators, steps
from support.visits import frame, open_visits

SQL = "SELECT COUNT(*) AS n FROM visits"


def counted(sql: str, **facts: int) -> tuple[int, int]:
    with open_visits(**facts) as curator:
        question = curator._planner.read(sql)
        return operators(question), steps(question)


@pytest.mark.parametrize(
    ("sql", "many"),
    [
        (SQL, 0),
        (f"{SQL} WHERE age > 40", 1),
        (f"{SQL} WHERE age > 40 AND sex = 'F'", 3),
        ("SELECT SUM(cost * 2) AS s FROM visits WHERE age > 40", 2),
        ("SELECT sex = 'F' AS f, COUNT(*) AS n FROM visits GROUP BY sex = 'F'", 1),
        (f"{SQL} WHERE age IN ({', '.join(map(str, range(95)))})", 10),
        (f"{SQL} WHERE REGEXP_MATCHES(name, '^ab{{3}}')", 1 + 8 * (1 + 1 + 4)),
        (f"{SQL} WHERE UPPER(name) = 'A' AND name ILIKE 'a%'", 8),
        ("SELECT COUNT(*) AS n FROM (SELECT age + 1 AS b FROM visits) AS t WHERE b * b > 4", 4),  # written out
        ("SELECT COUNT(*) AS n FROM (SELECT pid, SUM(cost + 1) AS c FROM visits GROUP BY pid) AS t WHERE c > 1", 2),
        ("SELECT COUNT(*) AS n FROM visits AS a JOIN visits AS b ON a.pid = b.pid AND a.age + 1 = b.age", 1),
        (
            f"SELECT COUNT(*) AS n FROM ({SQL[:7]}pid FROM visits WHERE age > 1 UNION ALL SELECT pid FROM visits) AS t",
            1,
        ),
        ("SELECT COUNT(*) + 1 + 2 + 3 AS n FROM visits", 0),  # above the release
    ],
)
def test_operators_below_the_release_are_counted(sql: str, many: int) -> None:
    assert counted(sql)[0] == many


@pytest.mark.parametrize(("rows", "terms", "found"), [(2, 3, 1), (4, 249, 1), (4, 250, 2), (500, 3, 2), (1000, 3, 4)])
def test_steps_are_whole_and_grow_with_operators_and_declared_rows(rows: int, terms: int, found: int) -> None:
    inside = f"age IN ({', '.join(map(str, range(10 * terms - 11)))})" if terms > 3 else "age > 1 AND age < 90"
    assert counted(f"{SQL} WHERE {inside}", rows_per_unit=rows) == (terms, found)
    assert found == 1 + terms * rows // A_STEP


def test_steps_do_not_follow_stored_rows() -> None:
    seen = set()
    for people in (0, 2, 4000):
        with open_visits(frame(people)) as curator:
            seen.add(steps(curator._planner.read(f"{SQL} WHERE age > 40")))
    assert seen == {1}
