"""Which texts are dates and timestamps, on every engine.

Guarantee:  a text is read as a DATE if and only if it is read as a TIMESTAMP: a day such as 2020-12-31, 2020/12/31 or
            2020 12 31, alone or followed by a valid time of day, by a zone, which is ignored, or by both, with spaces
            around it. Any other text is NULL, such as '2020-12-31 99:99' or 'epoch'.
Proof:      DuckDB, PostgreSQL and Spark disagree on the rest, and so do versions of DuckDB. Each converts only what
            this pattern lets through, without the zone; days that the calendar lacks are NULL in all of them.
Checked by: tests/engines/test_date_pattern.py
"""

from __future__ import annotations

DAY = "[0-9]{1,4}(?:-[0-9]{1,2}-|/[0-9]{1,2}/| [0-9]{1,2} )[0-9]{1,2}"
TO_TIME = "(?:T| {1,9})"
TIME = "(?:[01]?[0-9]|2[0-3]):[0-5]?[0-9](?::[0-5]?[0-9](?:[.][0-9]{1,9})?)?"
ZONE = "(?:Z| UTC|[+-][0-9]{2}(?::?[0-9]{2})?)?"
"""Parts of the pattern, which RE2, PostgreSQL and Java read alike."""
