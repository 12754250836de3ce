"""The answer to a statement with steps above the release: one table, computed from the answers to its parts.

A column computed row by row from m released numbers takes each at confidence 1 - (1 - c) / m. A column computed from
whole groups, or in rows chosen by noisy numbers, takes the box of all released numbers: each of the k columns at
1 - (1 - c) / k for all its groups together. Then everything computed from them holds together with probability c.
Checked by: tests/answers/test_postprocess.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from lapwing.answers.answer import Release, asked
from lapwing.answers.columns import UNFOUND
from lapwing.answers.formats import price, to_dict
from lapwing.answers.interval_arithmetic import shown_box
from lapwing.answers.postprocess.evaluate import evaluate
from lapwing.answers.postprocess.rows import Missing, StepRows
from lapwing.answers.table import AnswerColumn, AnswerTable
from lapwing.answers.tabular import Tabular, paid, price_line
from lapwing.engines.public_steps import Calculation, OverrunError
from lapwing.errors import Unfinished
from lapwing.expressions.expression import Slot
from lapwing.expressions.types import Type
from lapwing.numbers import Number
from lapwing.plan.postprocessed import ReleasedPart, SplitStatement, steps_of
from lapwing.plan.question import Question
from lapwing.privacy.budget import Cost
from lapwing.privacy.phrases import percent

Tables = Callable[[int, Fraction, bool], AnswerTable]
"""The released table of a part with intervals at a confidence, per number or for all groups together."""

_SELECTED = "Groups were selected privately: what is computed from them leaves out the groups that are not shown."
_TOGETHER = "its intervals hold for all groups together"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Computed(Tabular):
    """An answer computed from released tables. Whatever is done with it costs nothing more."""

    statement: SplitStatement
    parts: tuple[Release, ...]
    """The answers it was computed from, in the order of the statement."""
    cost: Cost
    """What all new parts cost now; 0 if all were stored."""
    confidence: Fraction
    bought: str = ""
    _cache: dict[tuple[Fraction, bool], tuple[AnswerColumn, ...]] = field(default_factory=dict)

    @property
    def entries(self) -> tuple[int, ...]:
        return tuple(sorted({part.entry for part in self.parts if part.entry}))

    @property
    def entry(self) -> int:
        """The newest of its ledger entries; 0 if there is none."""
        return max(self.entries, default=0)

    def table(self, confidence: Number | None = None, *, simultaneous: bool = False) -> AnswerTable:
        level = self._level(confidence)
        if (level, simultaneous) not in self._cache:
            self._cache[level, simultaneous] = (
                _unknown(self.statement)
                if self._nothing
                else compute(self.statement, self._tables, level, simultaneous=simultaneous)
            )
        title = asked(self.parts[0].plan.question) if len(self.parts) == 1 else ""
        selected = [_SELECTED] if any(part.plan.outline.domain is None for part in self.parts) else []
        notes = [*(note for part in self.parts for note in part.notes), *self.statement.notes, *selected]
        return AnswerTable(
            self._cache[level, simultaneous],
            level,
            paid(self.cost, *self.entries),
            tuple(dict.fromkeys(notes)),
            title,
            facts=self.to_dict,
            null_because=self._nothing,
            price=price_line(self.cost, self.bought, declared=not self.entry),
            warnings=tuple(dict.fromkeys(warning for part in self.parts for warning in part._warnings())),
        )

    @property
    def _nothing(self) -> str:
        """Why a part, and so the whole, has no answer."""
        return next((part.nothing for part in self.parts if part.nothing), "")

    def to_dict(self) -> dict[str, Any]:
        return to_dict(replace(self.table(), facts=self._facts))

    def methods(self) -> str:
        parts = [part.methods() for part in self.parts]
        if self._nothing:
            return " ".join(dict.fromkeys(parts))
        how = "The answer is computed from these released numbers, which costs nothing"
        shown = any(column.low is not None for column in self.columns)
        carried = f", and intervals are carried by interval arithmetic with {percent(self.confidence)} confidence"
        return " ".join([*dict.fromkeys(parts), f"{how}{carried if shown else ''}."])

    def _facts(self) -> dict[str, Any]:
        return {
            "price": price(self.cost),
            "ledger_entries": list(self.entries),
            "parts": [{"ledger_entry": part.entry or None, "measures": part.measures()} for part in self.parts],
            "methods": self.methods(),
        }

    def _tables(self, part: int, level: Fraction, together: bool) -> AnswerTable:
        return self.parts[part].table(level, simultaneous=together)


Answered = Release | Computed
"""The answer to a question."""


def compute(
    statement: SplitStatement, tables: Tables, confidence: Fraction, *, simultaneous: bool = False
) -> tuple[AnswerColumn, ...]:
    """The columns of the answer; raises Unfinished if that takes too long, and nothing else, whatever the numbers."""
    calculation, released = Calculation(), _released_columns(statement)
    together = 1 - (1 - confidence) / max(1, released)

    def rows(used: int | None) -> StepRows:
        level = together if used is None else 1 - (1 - confidence) / max(1, used)
        return evaluate(statement.root, lambda part: tables(part, level, used is None), calculation)

    try:
        with np.errstate(all="ignore"):
            whole = rows(None)
            needs_all = whole.chosen or simultaneous  # then boxes must hold for all released numbers together
            levels = {n: None if needs_all else whole.columns[n].used or None for _, n, _ in statement.columns}
            by_level = {used: whole if used is None else rows(used) for used in set(levels.values())}
    except OverrunError:
        raise Unfinished from None
    return tuple(_column(title, by_level[levels[n]], n, kind, levels[n]) for title, n, kind in statement.columns)


def _unknown(statement: SplitStatement) -> tuple[AnswerColumn, ...]:
    """One row of NULLs: what is computed from a part without an answer is not known."""
    null, columns = np.full(1, None, object), statement.columns
    return tuple(AnswerColumn(n, kind, null, reason=UNFOUND if kind.is_number else None) for n, _, kind in columns)


def _column(title: str, rows: StepRows, name: str, kind: Type, used: int | None) -> AnswerColumn:
    shown, cells = np.flatnonzero(rows.shown), rows.columns[name]
    values = cells.values[shown]
    if not cells.noisy:
        return AnswerColumn(title, kind, values)
    if cells.bare:
        return AnswerColumn(title, kind, values, bare=True, remark=cells.remark)
    chosen = rows.chosen
    if cells.low is None or cells.high is None or not kind.is_number:
        reason = cells.reason or "a value chosen by noisy numbers has no interval"
        return AnswerColumn(title, kind, values, reason=reason, chosen=chosen, remark=cells.remark)
    ends = shown_box((cells.low[shown], cells.high[shown]))
    remark = cells.remark if used is not None or chosen else "; ".join(filter(None, (cells.remark, _TOGETHER)))
    reason = (cells.reason or Missing.NO_ENDS) if np.isnan(cells.low[shown]).any() else None
    return AnswerColumn(title, kind, values, *ends, reason, chosen=chosen, remark=remark)


def _released_columns(statement: SplitStatement) -> int:
    read = set()
    for step in steps_of(statement.root):
        if isinstance(step, ReleasedPart):
            numbers = {o.name for o in statement.parts[step.place].outputs if isinstance(o.expression, Slot)}
            read |= {(step.place, output) for _, output, _ in step.columns if output in numbers}
    return len(read)


def rehearse_statement(statement: SplitStatement, confidence: Fraction) -> tuple[AnswerColumn, ...]:
    """The columns of the answer on tables with one row, after a run without rows: what cannot run fails uncharged."""

    def run(rows: int) -> tuple[AnswerColumn, ...]:
        blank = [_blank(part, rows if part.keys else 1) for part in statement.parts]
        return compute(statement, lambda part, level, _: AnswerTable(blank[part], level), confidence)

    run(0)
    return run(1)


def _blank(question: Question, rows: int) -> tuple[AnswerColumn, ...]:
    """The question's columns with NULLs for keys and zeros for numbers."""
    columns = []
    for output in question.outputs:
        kind = output.expression.type or Type.TEXT
        if isinstance(output.expression, Slot):
            zeros = np.zeros(rows, float if kind is Type.REAL else np.int64)
            columns.append(AnswerColumn(output.name, kind, zeros, zeros - 1.0, zeros + 1.0))
        else:
            columns.append(AnswerColumn(output.name, kind, np.full(rows, None, object)))
    return tuple(columns)
