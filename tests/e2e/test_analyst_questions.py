"""A hundred questions as analysts and their tools write them: at least ninety are answered as written, and each of
the others is refused with a code and has a rewrite that is answered. Nothing was made easier for the reader."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lapwing as lw
from lapwing.curator import Curator
from support.analyst import births_curator, flights_curator, health_curator

FLIGHTS = """
-- counts, averages and filters
SELECT COUNT(*) FROM flights;
SELECT COUNT(DISTINCT tail) AS planes FROM flights;
SELECT carrier, COUNT(*) AS flights FROM flights GROUP BY carrier ORDER BY flights DESC;
SELECT carrier, AVG(dep_delay), AVG(arr_delay) FROM flights GROUP BY carrier;
SELECT origin, MEDIAN(arr_delay) AS typical FROM flights GROUP BY origin;
SELECT COUNT(*) FROM flights WHERE dep_delay > 15 AND NOT cancelled;
SELECT carrier, AVG(CASE WHEN arr_delay > 15 THEN 1 ELSE 0 END) AS late FROM flights GROUP BY carrier;
SELECT carrier, AVG(arr_delay > 15) AS late FROM flights GROUP BY 1;
SELECT carrier, COUNT(*) FILTER (WHERE cancelled) AS cancelled, COUNT(*) AS all_flights FROM flights GROUP BY ALL;
SELECT SUM(CASE WHEN cancelled THEN 1 ELSE 0 END) * 100.0 / COUNT(*) AS pct_cancelled FROM flights;
SELECT COUNT_IF(arr_delay <= 0) AS early, COUNT_IF(arr_delay > 0) AS late FROM flights;
SELECT STDDEV(dep_delay), VARIANCE(dep_delay), CORR(dep_delay, arr_delay) FROM flights;
SELECT MIN(distance), MAX(distance) FROM flights;
SELECT QUANTILE_CONT(arr_delay, 0.9) AS p90 FROM flights WHERE origin = 'JFK';
SELECT origin, SUM(distance) AS miles FROM flights WHERE carrier IN ('AA', 'DL') GROUP BY origin;
SELECT carrier, COUNT(*) n FROM flights GROUP BY carrier HAVING COUNT(*) > 50 ORDER BY n DESC LIMIT 3;
SELECT dest, COUNT(*) AS n FROM flights GROUP BY dest ORDER BY n DESC LIMIT 10;
SELECT COALESCE(remark, 'none') AS remark, COUNT(*) FROM flights GROUP BY 1;
SELECT COUNT(*) FROM flights WHERE remark LIKE 'late%';
SELECT COUNT(*) FROM flights WHERE REGEXP_MATCHES(remark, '^late: (weather|crew)$');
SELECT SPLIT_PART(remark, ': ', 2) AS cause, COUNT(*) FROM flights WHERE remark LIKE 'late%' GROUP BY cause;
SELECT REPLACE(LOWER(remark), 'late: ', '') AS cause, COUNT(*) FROM flights GROUP BY 1;
SELECT UPPER(LEFT(dest, 1)) AS letter, COUNT(*) FROM flights GROUP BY letter;
SELECT CONCAT(origin, '-', dest) AS route, COUNT(*) AS n FROM flights GROUP BY route ORDER BY n DESC LIMIT 5;
SELECT CONCAT(carrier, flight) AS code, COUNT(*) FROM flights GROUP BY code;
SELECT COUNT(*) FROM flights WHERE flight = '101';
SELECT COUNT(*) FROM flights WHERE cancelled = 1;
SELECT COUNT(*) FROM flights WHERE cancelled = 'true';
-- dates
SELECT DATE_TRUNC('month', day) AS month, COUNT(*) FROM flights GROUP BY month ORDER BY month;
SELECT STRFTIME(day, '%Y-%m') AS month, COUNT(*) FROM flights GROUP BY month ORDER BY month;
SELECT DAYNAME(day) AS weekday, AVG(dep_delay) FROM flights GROUP BY weekday;
SELECT MONTHNAME(day) AS month, COUNT(*) FROM flights GROUP BY month;
SELECT EXTRACT(hour FROM departs) AS hour, AVG(dep_delay) FROM flights GROUP BY hour ORDER BY hour;
SELECT YEAR(day) AS y, QUARTER(day) AS q, COUNT(*) FROM flights GROUP BY y, q;
SELECT COUNT(*) FROM flights WHERE day BETWEEN '2024-03-01' AND '2024-03-31';
SELECT COUNT(*) FROM flights WHERE day >= CURRENT_DATE - INTERVAL 90 DAY;
SELECT COUNT(*) FROM flights WHERE departs >= TIMESTAMP '2024-06-01 00:00:00' AND HOUR(departs) < 12;
SELECT DATE_DIFF('day', day, CURRENT_DATE) > 365 AS old, COUNT(*) FROM flights GROUP BY old;
SELECT CASE WHEN DAYOFWEEK(day) IN (0, 6) THEN 'weekend' ELSE 'weekday' END AS kind, AVG(arr_delay) FROM flights
    GROUP BY kind;
-- totals, shares, ranks
SELECT carrier, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS share FROM flights GROUP BY carrier;
SELECT carrier, COUNT(*) * 100.0 / (SELECT COUNT(*) FROM flights) AS share FROM flights GROUP BY carrier;
SELECT month, n, SUM(n) OVER (ORDER BY month) AS running FROM (SELECT DATE_TRUNC('month', day) AS month, COUNT(*) AS
    n FROM flights GROUP BY 1) ORDER BY month;
SELECT month, n, n - LAG(n) OVER (ORDER BY month) AS change FROM (SELECT DATE_TRUNC('month', day) AS month, COUNT(*)
    AS n FROM flights GROUP BY 1);
SELECT carrier, RANK() OVER (ORDER BY AVG(arr_delay)) AS place, AVG(arr_delay) FROM flights GROUP BY carrier;
SELECT origin, carrier, COUNT(*) AS n FROM flights GROUP BY origin, carrier QUALIFY ROW_NUMBER() OVER (PARTITION BY
    origin ORDER BY COUNT(*) DESC) <= 2;
WITH n AS (SELECT origin, carrier, COUNT(*) AS flights FROM flights GROUP BY origin, carrier) SELECT * FROM (SELECT
    *, ROW_NUMBER() OVER (PARTITION BY origin ORDER BY flights DESC) AS place FROM n) WHERE place = 1;
SELECT origin, carrier, COUNT(*) FROM flights GROUP BY ROLLUP (origin, carrier);
SELECT origin, carrier, COUNT(*) FROM flights GROUP BY CUBE (origin, carrier);
SELECT origin, carrier, COUNT(*) FROM flights GROUP BY GROUPING SETS ((origin), (carrier), ());
SELECT AVG(n) AS per_carrier FROM (SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier);
SELECT MAX(n) - MIN(n) AS spread FROM (SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier);
SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier ORDER BY n DESC LIMIT 2 OFFSET 1;
SELECT carrier, COUNT(*) AS n FROM flights WHERE origin = 'JFK' GROUP BY carrier UNION ALL SELECT carrier, COUNT(*)
    AS n FROM flights WHERE origin = 'LGA' GROUP BY carrier;
WITH a AS (SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier), b AS (SELECT carrier, COUNT(*) AS late FROM
    flights WHERE arr_delay > 15 GROUP BY carrier) SELECT a.carrier, late * 1.0 / n AS share FROM a JOIN b ON
    a.carrier = b.carrier;
SELECT TOP 3 carrier, COUNT(*) AS n FROM flights GROUP BY carrier ORDER BY n DESC;
SELECT carrier, AVG(arr_delay) - (SELECT AVG(arr_delay) FROM flights) AS above FROM flights GROUP BY carrier;
-- lists of values
SELECT DISTINCT carrier FROM flights;
SELECT DISTINCT dest FROM flights ORDER BY dest;
SELECT carrier FROM flights GROUP BY carrier;
-- joins
SELECT a.name, COUNT(*) FROM flights f JOIN airlines a ON f.carrier = a.carrier GROUP BY a.name;
SELECT a.name, AVG(f.dep_delay) FROM flights f, airlines a WHERE f.carrier = a.carrier AND NOT f.cancelled GROUP BY
    a.name;
SELECT o.state, COUNT(*) FROM (flights f JOIN airports o ON f.origin = o.code) GROUP BY o.state;
SELECT o.city AS from_city, d.city AS to_city, COUNT(*) AS n FROM flights JOIN airports o ON origin = o.code JOIN
    airports d ON dest = d.code GROUP BY o.city, d.city ORDER BY n DESC LIMIT 5;
SELECT maker, AVG(dep_delay) FROM flights JOIN planes USING (tail) GROUP BY maker;
SELECT built // 10 * 10 AS decade, COUNT(DISTINCT tail) FROM planes GROUP BY decade ORDER BY decade;
SELECT COUNT(*) FROM main.flights;
-- who else did
SELECT COUNT(DISTINCT tail) FROM flights WHERE tail IN (SELECT tail FROM repairs WHERE kind = 'engine');
SELECT carrier, COUNT(*) FROM flights WHERE tail NOT IN (SELECT tail FROM repairs) GROUP BY carrier;
SELECT AVG(arr_delay) FROM flights f WHERE EXISTS (SELECT 1 FROM repairs r WHERE r.tail = f.tail AND r.cost > 500);
SELECT COUNT(*) FROM planes p WHERE NOT EXISTS (SELECT * FROM flights f WHERE f.tail = p.tail AND f.cancelled);
SELECT COUNT(*) FROM flights WHERE dest IN (SELECT code FROM airports WHERE state IN ('CA', 'CO'));
SELECT COUNT(*) FROM flights WHERE origin NOT IN (SELECT code FROM airports WHERE city = 'New York');
SELECT COUNT(DISTINCT tail) FROM flights WHERE tail IN (SELECT tail FROM repairs GROUP BY tail HAVING SUM(cost) >
    1000);
-- cohorts and units
SELECT first_month, COUNT(*) AS planes FROM (SELECT tail, DATE_TRUNC('month', MIN(day)) AS first_month FROM flights
    GROUP BY tail) GROUP BY first_month ORDER BY first_month;
SELECT n, COUNT(*) AS planes FROM (SELECT tail, COUNT(*) AS n FROM flights GROUP BY tail) GROUP BY n;
SELECT AVG(n) FROM (SELECT tail, COUNT(*) AS n FROM flights GROUP BY tail);
SELECT AVG(total) FROM (SELECT tail, SUM(cost) AS total FROM repairs GROUP BY tail) WHERE total > 0;
"""

HEALTH = """
SELECT plan, AVG(visits) AS visits FROM health GROUP BY plan ORDER BY visits DESC;
SELECT plan, sex, COUNT(DISTINCT person) AS people, AVG(spending) FROM health GROUP BY plan, sex;
SELECT year, SUM(spending) / COUNT(DISTINCT person) AS per_head FROM health GROUP BY year ORDER BY year;
SELECT general_health, AVG(visits), STD(visits), VAR(visits) FROM health GROUP BY general_health;
SELECT BUCKET(age, [0, 18, 40, 65]) AS band, AVG(visits) FROM health GROUP BY band;
SELECT CASE WHEN age < 18 THEN 'child' WHEN age < 65 THEN 'adult' ELSE 'senior' END AS grp, AVG(spending) FROM
    health GROUP BY grp;
SELECT plan, COUNT(*) FILTER (WHERE admissions > 0) * 1.0 / COUNT(*) AS admitted FROM health GROUP BY plan;
SELECT AVG(deductible) FROM health;
SELECT sex, year, AVG(visits) FROM health GROUP BY ROLLUP (sex, year);
SELECT FLOOR(income / 5000) * 5000 AS bracket, COUNT(DISTINCT person) FROM health GROUP BY bracket;
SELECT REGR_SLOPE(spending, visits), REGR_INTERCEPT(spending, visits) FROM health;
SELECT plan, AVG(visits) / FIRST_VALUE(AVG(visits)) OVER (ORDER BY plan) AS relative FROM health GROUP BY plan;
"""

BIRTHS = """
SELECT sex, COUNT(*) AS names FROM births GROUP BY sex;
SELECT sex, SUM(births) AS children FROM births GROUP BY sex;
SELECT LENGTH(name) AS letters, COUNT(*) FROM births GROUP BY letters ORDER BY letters;
SELECT COUNT(*) FROM births WHERE STARTS_WITH(name, 'A') AND sex = 'F';
"""

REFUSED: tuple[tuple[str, str, str], ...] = (
    ("SELECT * FROM flights LIMIT 10", "row-choice", "SELECT COUNT(*) FROM flights"),
    (
        "SELECT tail, COUNT(*) AS n FROM flights GROUP BY tail ORDER BY n DESC LIMIT 1",
        "unit-grouping",
        "SELECT MAX(n) FROM (SELECT tail, COUNT(*) AS n FROM flights GROUP BY tail)",
    ),
    (
        "SELECT COUNT(*) FROM flights WHERE arr_delay > (SELECT AVG(arr_delay) FROM flights)",
        "unsupported-function",
        "SELECT COUNT(*) FROM flights WHERE arr_delay > 27",
    ),
    (
        "SELECT carrier, ANY_VALUE(remark) FROM flights GROUP BY carrier",
        "unsupported-function",
        "SELECT carrier, COUNT(remark) AS remarks FROM flights GROUP BY carrier",
    ),
    (
        "SELECT ROUND(AVG(distance / air_time * 60), 1) AS mph FROM flights WHERE air_time > 30",
        "unbounded-value",
        "SELECT ROUND(AVG(distance / GREATEST(air_time, 30) * 60), 1) AS mph FROM flights WHERE air_time > 30",
    ),
    (
        "SELECT STRING_AGG(remark, ', ') FROM flights WHERE carrier = 'AA'",
        "unsupported-function",
        "SELECT origin, COUNT(remark) AS remarks FROM flights WHERE carrier = 'AA' GROUP BY origin",
    ),
    (
        "SELECT COUNT(*) FROM flights WHERE departs > NOW() - INTERVAL 1 HOUR",
        "unsupported-function",
        "SELECT COUNT(*) FROM flights WHERE departs > TIMESTAMP '2024-06-01 10:00:00'",
    ),
)
"""A question, the code of its refusal, and what to ask instead."""

ASKED = {flights_curator: FLIGHTS, health_curator: HEALTH, births_curator: BIRTHS}


def questions(text: str) -> list[str]:
    """The questions of a text, without its comments."""
    lines = (line.strip() for line in text.splitlines() if not line.startswith("--"))
    return [question.strip() for question in " ".join(lines).split(";") if question.strip()]


ALL = [(sql, curator) for curator, text in ASKED.items() for sql in questions(text)]


def test_there_are_a_hundred_questions_and_ninety_answers() -> None:
    assert len(ALL) + len(REFUSED) == len({sql for sql, *_ in (*ALL, *REFUSED)}) == 100
    assert len(ALL) >= 90


@pytest.mark.parametrize(("sql", "curator"), ALL, ids=[sql for sql, _ in ALL])
def test_question_is_answered_as_written(sql: str, curator: Callable[[], Curator]) -> None:
    answer = curator().sql(sql, epsilon=1)
    assert answer.to_arrow().num_columns > 0


@pytest.mark.parametrize(("sql", "code", "instead"), REFUSED, ids=[sql for sql, *_ in REFUSED])
def test_refused_question_has_a_rewrite_that_is_answered(sql: str, code: str, instead: str) -> None:
    curator = flights_curator()
    spent = curator.budget.spent
    with pytest.raises(lw.Refused) as refused:
        curator.sql(sql, epsilon=1)
    assert refused.value.code == code
    assert str(refused.value).endswith("Nothing was charged.")
    assert curator.budget.spent == spent
    assert curator.sql(instead, epsilon=1).to_arrow().num_rows > 0
