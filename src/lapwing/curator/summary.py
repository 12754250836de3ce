"""The questions that people ask first of any table, from its declared facts alone."""

from __future__ import annotations

from lapwing.expressions.phrases import name_text
from lapwing.expressions.table import Catalog, Table


def first_questions(table: Table) -> list[str]:
    """Up to three questions that these facts answer: a count, a count by group, and a mean with quartiles."""
    count, *others = [text for name, text in summary_questions(table).items() if name != "missing"]
    grouped = [text for text in others if " GROUP BY " in text]
    means = [text for text in others if " GROUP BY " not in text]
    return [count, *grouped[:1], *means[:1]]


def summary_of(catalog: Catalog, name: str | None) -> dict[str, str]:
    """The questions about the table of this name, or the only private one."""
    private = [table for table in catalog.tables if not table.public]
    return summary_questions(private[0] if name is None and len(private) == 1 else catalog.table(name))


def summary_questions(table: Table) -> dict[str, str]:
    """By name: the number of rows, missing values, a count of each declared value, mean and quartiles of numbers."""
    name, counts_rows = name_text(table.name), table.row_limit is not None
    counted = "COUNT(*)" if counts_rows else f"COUNT(DISTINCT {name_text(table.unit or '')})"
    questions = {"rows" if counts_rows else "units": f"SELECT {counted} AS n FROM {name}"}
    fields = [field for field in table.fields if field.name != table.unit]
    known = [name_text(field.name) for field in fields if field.values or field.bounds is not None]
    if counts_rows and known:
        counts = ", ".join(f"COUNT(*) FILTER (WHERE {column} IS NULL) AS {column}" for column in known)
        questions["missing"] = f"SELECT {counts} FROM {name}"
    for field in fields:
        column = name_text(field.name)
        if field.values:
            questions[field.name] = f"SELECT {column}, {counted} AS n FROM {name} GROUP BY {column}"
        elif field.bounds is not None and counts_rows:
            quartiles = ", ".join(f"QUANTILE_CONT({column}, {q}) AS q{i}" for i, q in enumerate((0.25, 0.5, 0.75), 1))
            questions[field.name] = f"SELECT AVG({column}) AS mean, {quartiles} FROM {name}"
    return questions
