"""An Ibis expression as SQL, for what goes on above the release.

Ibis writes it, and it is read like any other text: node by node from the allow lists of sql/. So windows over
aggregated tables, aggregates of aggregates and joins of released tables mean the same in both languages.
"""

from __future__ import annotations

from typing import Any

from lapwing.sql.refusals import LANGUAGE


def written_as_sql(expression: Any) -> str | None:
    """The text of an Ibis expression; None if it has none, or is no such expression."""
    if type(expression).__module__.partition(".")[0] != "ibis":
        return None
    import ibis
    from ibis.common.exceptions import IbisError

    try:
        return str(ibis.to_sql(expression, dialect=LANGUAGE))
    except (IbisError, TypeError, ValueError, AttributeError, LookupError, NotImplementedError):
        return None
