"""What a statement with steps above the release gives back: one table, computed from the answers to its parts.

Intervals. A column computed row by row from m released numbers takes each at confidence 1 - (1 - c) / m. A column that
is computed from whole groups, or that stands in rows chosen by noisy numbers, takes the box of all released numbers of
all parts: each of the k columns at 1 - (1 - c) / k for all its groups together. Then everything that is computed from
them holds together with probability c at least, whatever was chosen.
Checked by: tests/answers/test_postprocess.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from lapwing.answers.answer import Release
from lapwing.answers.columns import UNFOUND
from lapwing.answers.formats import price, to_dict
from lapwing.answers.interval_arithmetic import shown_box
from lapwing.answers.phrases import asked
from lapwing.answers.postprocess.evaluate import evaluate
from lapwing.answers.postprocess.rows import StepColumn, StepRows
from lapwing.answers.table import AnswerColumn, AnswerTable
from lapwing.answers.tabular import Tabular, paid, price_line
from lapwing.engines.public_values import Calculation, OverrunError
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
    """The price in the caller's words."""
    _made: dict[tuple[Fraction, bool], tuple[AnswerColumn, ...]] = field(default_factory=dict)

    @property
    def entries(self) -> tuple[int, ...]:
        """The ledger entries of its parts; public keys alone have none."""
        return tuple(sorted({part.entry for part in self.parts if part.entry}))

    @property
    def entry(self) -> int:
        """The newest of its ledger entries; 0 if there is none."""
        return max(self.entries, default=0)

    def table(self, confidence: Number | None = None, *, simultaneous: bool = False) -> AnswerTable:
        """The answer with intervals at this confidence, per number or for all rows of a column together."""
        level = self._level(confidence)
        if (level, simultaneous) not in self._made:
            run = partial(compute, self.statement, self._released, level, simultaneous=simultaneous)
            made = _unknown(self.statement) if self._nothing else run()
            self._made[level, simultaneous] = made
        title = asked(self.parts[0].plan.question) if len(self.parts) == 1 else ""
        selected = [_SELECTED] if any(part.plan.outline.domain is None for part in self.parts) else []
        said = [*(note for part in self.parts for note in part.notes), *self.statement.notes, *selected]
        notes = tuple(dict.fromkeys(said))
        return AnswerTable(
            self._made[level, simultaneous],
            level,
            paid(self.cost, *self.entries),
            notes,
            title,
            facts=self.to_dict,
            null_because=self._nothing,
            price=price_line(self.cost, self.bought, declared=not self.entry),
            warnings=tuple(dict.fromkeys(one for part in self.parts for one in part._warnings())),
        )

    @property
    def _nothing(self) -> str:
        """Why a part has no answer, and so nothing is computed from it."""
        return next((part.nothing for part in self.parts if part.nothing), "")

    def to_dict(self) -> dict[str, Any]:
        """Rows with intervals, price and methods, ready for JSON."""
        return to_dict(replace(self.table(), facts=self._facts))

    def methods(self) -> str:
        """Sentences to put into a paper."""
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

    def _released(self, place: int, level: Fraction, together: bool) -> AnswerTable:
        return self.parts[place].table(level, simultaneous=together)


Answered = Release | Computed
"""What a question gives back."""


def compute(
    statement: SplitStatement, tables: Tables, confidence: Fraction, *, simultaneous: bool = False
) -> tuple[AnswerColumn, ...]:
    """The columns of the answer; raises Unfinished if that takes too long, and nothing else, whatever the numbers."""
    calculation, released = Calculation(), _released_columns(statement)
    together = 1 - (1 - confidence) / max(1, released)

    def rows(many: int | None) -> StepRows:
        level = together if many is None else 1 - (1 - confidence) / max(1, many)
        return evaluate(statement.root, lambda place: tables(place, level, many is None), calculation)

    with np.errstate(all="ignore"), _finished():
        first = rows(None)
        levels = {name: _level(first, first.columns[name], simultaneous) for _, name, _ in statement.columns}
        seen = {many: first if many is None else rows(many) for many in set(levels.values())}
    return tuple(
        _column(shown, seen[levels[name]], seen[levels[name]].columns[name], kind, levels[name])
        for shown, name, kind in statement.columns
    )


def _unknown(statement: SplitStatement) -> tuple[AnswerColumn, ...]:
    """One row of NULLs: what is computed from a part without an answer is not known."""
    null, columns = np.full(1, None, object), statement.columns
    return tuple(AnswerColumn(n, kind, null, reason=UNFOUND if kind.is_number else None) for n, _, kind in columns)


@contextmanager
def _finished() -> Iterator[None]:
    """Says in one constant sentence that a run did not end."""
    try:
        yield
    except OverrunError:
        raise Unfinished from None


def _level(rows: StepRows, cells: StepColumn, simultaneous: bool) -> int | None:
    """From how many released numbers a column needs boxes; None for all of them together."""
    if not cells.noisy:
        return None
    return None if rows.chosen or simultaneous else cells.many


def _column(name: str, rows: StepRows, cells: StepColumn, kind: Type, many: int | None) -> AnswerColumn:
    shown = np.flatnonzero(rows.shown)
    values = cells.values[shown]
    if not cells.noisy:
        return AnswerColumn(name, kind, values)
    if cells.bare:
        return AnswerColumn(name, kind, values, bare=True, remark=cells.remark)
    chosen = rows.chosen
    if cells.low is None or cells.high is None or not kind.is_number:
        reason = cells.reason or "a value chosen by noisy numbers has no interval"
        return AnswerColumn(name, kind, values, reason=reason, chosen=chosen, remark=cells.remark)
    ended = not np.isnan(cells.low[shown]).any()
    low, high = shown_box((cells.low[shown], cells.high[shown]))
    remark = cells.remark if many is not None or chosen else "; ".join(filter(None, (cells.remark, _TOGETHER)))
    missing = None if ended else cells.reason or "an interval that it needs has no ends"
    return AnswerColumn(name, kind, values, low, high, missing, chosen=chosen, remark=remark)


def _released_columns(statement: SplitStatement) -> int:
    """How many columns of released numbers the steps read."""
    read = set()
    for step in steps_of(statement.root):
        if isinstance(step, ReleasedPart):
            numbers = {o.name for o in statement.parts[step.place].outputs if isinstance(o.expression, Slot)}
            read |= {(step.place, output) for _, output, _ in step.columns if output in numbers}
    return len(read)


def rehearse_statement(statement: SplitStatement, confidence: Fraction) -> tuple[AnswerColumn, ...]:
    """Runs the steps on tables without rows, and with one each, before the charge: what cannot run costs nothing.

    Returns the columns of the last run, which say what is noisy.
    """
    made: tuple[AnswerColumn, ...] = ()
    for rows in (0, 1):
        blank = [_blank(part, rows if part.keys else 1) for part in statement.parts]
        tables: Tables = lambda place, level, _, known=blank: AnswerTable(known[place], level)  # type: ignore[misc] # noqa: E731
        made = compute(statement, tables, confidence)
    return made


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
