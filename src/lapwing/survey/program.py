"""What a browser does with an answer: a few comparisons of random words with whole numbers.

A program turns one answer and a fixed number of words into one whole number, the report. It is data: the page
carries it as JSON, and `run` here and the script of the page read the same fields. An answer is a whole number, or None
for "no answer", which is randomized like every other value.

whole:    one symbol of a domain, whose last one is "no answer".
coins:    two symbols; without an answer a fair coin is sent.
option:   one of several yes-or-no items, drawn without looking at the answer, then its symbol.
bits:     a bit for each value, as unary encoding.
rounded:  a number, rounded at random to one of the two nearest points of a grid, then its symbol.
Checked by: tests/survey/test_programs.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lapwing.collect.probabilities import WORD, SymbolCoin
from lapwing.errors import Bug

Op = Literal["whole", "coins", "option", "bits", "rounded"]


@dataclass(frozen=True, slots=True)
class Program:
    """How one question is randomized."""

    op: Op
    words: int
    """Words it reads, whatever the answer is."""
    answers: int
    """Answers are 0 to this number minus 1, or None."""
    reports: int
    """Reports are 0 to this number minus 1. Any other number is malformed."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    thresholds: Mapping[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of a report."""
        return -(-(self.reports - 1).bit_length() // 8)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON. Thresholds are text: they have more digits than a number of JavaScript."""
        thresholds = {name: str(value) for name, value in self.thresholds.items()}
        return {"op": self.op, "words": self.words, "bytes": self.size, "answers": self.answers} | {
            **self.numbers,
            **thresholds,
        }


def _coin(coin: SymbolCoin) -> dict[str, int]:
    return {"truth": coin.truth, "other": coin.other}


def whole(coin: SymbolCoin, symbols: int) -> Program:
    return Program("whole", 1, symbols - 1, symbols, {"symbols": symbols}, _coin(coin))


def coins(coin: SymbolCoin) -> Program:
    return Program("coins", 1, 2, 2, {"symbols": 2}, _coin(coin))


def option(coin: SymbolCoin, *, items: int, options: int, symbols: int) -> Program:
    numbers = {"items": items, "options": options, "symbols": symbols}
    return Program("option", 2, 1 << options, items * symbols, numbers, _coin(coin))


def bits(rare: int, symbols: int) -> Program:
    return Program("bits", symbols, symbols - 1, 1 << symbols, {"symbols": symbols}, {"rare": rare})


def rounded(coin: SymbolCoin, *, points: int, steps: int) -> Program:
    numbers = {"points": points, "steps": steps, "symbols": points + 1}
    return Program("rounded", 2, steps + 1, points + 1, numbers, _coin(coin))


def run(program: Mapping[str, Any], answer: int | None, words: Sequence[int], *, width: int = WORD) -> int:
    """The report, from a program as JSON has it. Tests run it on words of few bits."""
    if answer is not None and not 0 <= answer < int(program["answers"]):
        raise ValueError("the answer is not one of this question's")
    if len(words) != program["words"]:
        raise ValueError("a program reads a fixed number of words")
    match program["op"]:
        case "whole":
            return spread(program, program["symbols"] - 1 if answer is None else answer, words[0])
        case "coins":
            return words[0] >> width - 1 if answer is None else spread(program, answer, words[0])
        case "option":
            item = words[0] * int(program["items"]) >> width
            return item * int(program["symbols"]) + spread(program, _item(program, answer, item), words[1])
        case "bits":
            held = program["symbols"] - 1 if answer is None else answer
            rare, half = int(program["rare"]), 1 << width - 1
            return sum((word < (half if i == held else rare)) << i for i, word in enumerate(words))
        case "rounded":
            place = program["symbols"] - 1 if answer is None else _grid(program, answer, words[0], width)
            return spread(program, place, words[1])
        case _:
            raise Bug("a program of a survey has an operation that is not known")


def spread(program: Mapping[str, Any], place: int, word: int) -> int:
    """The symbol in this place, or by chance another one: what collect/encodings.py does with the same word."""
    truth = int(program["truth"])
    if word < truth:
        return place
    other: int = (word - truth) // int(program["other"])
    return other + (other >= place)


def _item(program: Mapping[str, Any], answer: int | None, item: int) -> int:
    """The true symbol of one item: chosen or not, or whether there is an answer at all."""
    if item == program["options"]:
        return int(answer is None)
    if answer is None:
        return 2 if program["symbols"] == 3 else 0
    return answer >> item & 1


def _grid(program: Mapping[str, Any], answer: int, word: int, width: int) -> int:
    points, steps = int(program["points"]), int(program["steps"])
    point, rest = divmod(answer * (points - 1), steps)
    return point + (word * steps < rest << width)
