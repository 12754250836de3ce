"""A refusal about types names them, and what it says to write instead is answered."""

from __future__ import annotations

import pytest

from lapwing.cli.output import in_flags
from lapwing.errors import Refused
from lapwing.sql import read_sql
from support.refusals import attempt
from support.visits import visits_catalog

CURED: dict[str, tuple[str, str]] = {
    "sick = 'yes'": ("`sick` is boolean and 'yes' is text.", "sick"),
    "sick = 'no'": ("`sick` is boolean and 'no' is text.", "NOT sick"),
    "sick <> 'yes'": ("`sick` is boolean and 'yes' is text.", "NOT sick"),
    "name = 8": ("`name` is text and 8 is an integer.", "CAST(name AS INTEGER) = 8, or name = '8' to compare texts"),
    "name IN (1, 2)": ("`name` is text, 1 is an integer and 2 is an integer.", "CAST(name AS INTEGER) IN (1, 2)"),
    "day = at": ("`day` is a date and `at` is a timestamp.", "CAST(day AS TIMESTAMP)"),
    "at >= DATE '2020-12-31' - INTERVAL 90 DAY": (
        "`at` is a timestamp",
        "CAST(DATE '2020-12-31' - INTERVAL 90 DAY AS TIMESTAMP)",
    ),
    "day > 5": ("`day` is a date and 5 is an integer.", "day >= DATE '2020-12-31', or use YEAR(day)"),
    "age = 'old'": ("`age` is an integer and 'old' is text.", "age = 40"),
    "LOWER(age) = 'a'": ("`age` is an integer.", "LOWER(CAST(age AS TEXT))"),
    "age LIKE '1%'": ("`age` is an integer and '1%' is text.", "CAST(age AS TEXT) LIKE '1%'"),
    "name + 1 > 2": ("`name` is text and 1 is an integer.", "CAST(name AS INTEGER)"),
    "CONCAT(name, cost) = 'a'": ("`cost` is a real number, whose cast to text differs", "CAST(cost AS INTEGER)"),
}
ANSWERED = (
    "sick",
    "NOT sick",
    "name = '8'",
    "CAST(name AS INTEGER) = 8",
    "CAST(name AS INTEGER) IN (1, 2)",
    "CAST(day AS TIMESTAMP) = at",
    "at >= CAST(DATE '2020-12-31' - INTERVAL 90 DAY AS TIMESTAMP)",
    "day >= DATE '2020-12-31'",
    "YEAR(day) > 5",
    "age = 40",
    "LOWER(CAST(age AS TEXT)) = 'a'",
    "CAST(age AS TEXT) LIKE '1%'",
    "CAST(name AS INTEGER) + 1 > 2",
    "CONCAT(name, CAST(cost AS INTEGER)) = 'a'",
)


def asked(condition: str) -> object:
    return attempt(read_sql, f"SELECT COUNT(*) FROM visits WHERE {condition}", visits_catalog())


@pytest.mark.parametrize("condition", CURED)
def test_wrong_types_are_named_with_a_cure(condition: str) -> None:
    refused = asked(condition)
    assert isinstance(refused, Refused)
    assert refused.code == "wrong-type"
    why, instead = CURED[condition]
    assert refused.why.startswith(why)
    assert instead in refused.instead
    assert str(refused).endswith("Nothing was charged.")


@pytest.mark.parametrize("condition", ANSWERED)
def test_cure_is_answered(condition: str) -> None:
    assert not isinstance(asked(condition), Refused)


@pytest.mark.parametrize("condition", ["age IS TRUE", "COALESCE(name, 1) = 'a'", "sick > 5", "GREATEST(day, 5) > day"])
def test_other_types_that_do_not_fit_are_refused(condition: str) -> None:
    refused = asked(condition)
    assert isinstance(refused, Refused)
    assert refused.code == "wrong-type"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("CUONT(age)", "COUNT"),
        ("LOWERR(name)", "LOWER"),
        ("REGEXP_MATCH(name, 'a')", "REGEXP_MATCHES"),
        ("DAY_NAME(day)", "DAYNAME"),
        ("STRFTIM(day, '%Y')", "STRFTIME"),
        ("CONCATS(name)", "CONCAT"),
    ],
)
def test_unknown_function_says_which_one_was_meant(written: str, meant: str) -> None:
    refused = asked(f"{written} IS NULL")
    assert isinstance(refused, Refused)
    assert refused.instead == f"Did you mean {meant}?"


def test_refusal_is_about_the_function_that_was_written() -> None:
    refused = asked("LEFT(name, age) = 'a'")
    assert isinstance(refused, Refused)
    assert refused.part == "`LEFT(name, age)`"
    assert "substring" not in refused.why


def test_command_line_says_flags_where_python_says_arguments() -> None:
    said = 'Or pass bounds="auto" and limits="auto". Ask with epsilon=, share=0.05 or delta=1e-9. Use refresh=True.'
    flags = "Or pass --bounds auto and --limits auto. Ask with --epsilon, --share 0.05 or --delta 1e-9. Use --refresh."
    assert in_flags(said) == flags
    assert in_flags("Declare bounds = [0, 100].") == "Declare bounds = [0, 100]."
