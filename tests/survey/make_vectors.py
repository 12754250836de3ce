"""Writes vectors.json: answers, random words and the reports that both Python and the page's script must make of them.

Run it with `python tests/survey/make_vectors.py` after a change of the programs on purpose.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lapwing.survey import parse_survey, public_description, randomize
from support.tape import SeededBits

HERE = Path(__file__).parent
HEAD = 'title = "t"\nrun_by = "r"\ncontact = "c"\nreport_from = 10\n'
SURVEYS = {
    "small": ("0.5", "1"),
    "large": ("3", "7"),
}


def survey_text(epsilons: tuple[str, ...]) -> str:
    parts = []
    for place, epsilon in enumerate(epsilons):
        few, more = (",".join(f'"{chr(97 + i)}"' for i in range(many)) for many in (2 + 2 * place, 2 + 5 * place))
        kinds = {
            "yes": 'kind="yes-no"',
            "one": f'kind="choice"\noptions=[{more}]',
            "some": f'kind="several"\noptions=[{few}]',
            "number": f'kind="number"\nrange=[-5,{10 + place}]\nstep=0.5',
        }
        for name, kind in kinds.items():
            parts.append(f'[[questions]]\nid="{name}{place}"\ntext="?"\n{kind}\nepsilon={epsilon}\n')
    parts.append('[[questions]]\nid="coins"\ntext="?"\nkind="two-coins"\n')
    parts.append('[[questions]]\nid="scale"\ntext="?"\nkind="number"\nrange=[0,10]\npoints=11\nepsilon=1\n')
    many = ",".join(f'"option {i}"' for i in range(11))
    parts.append(f'[[questions]]\nid="many"\ntext="?"\nkind="choice"\noptions=[{many}]\nepsilon=0.5\n')
    total = 4 * sum(float(epsilon) for epsilon in epsilons) + 1.09862 + 1.5
    return f"{HEAD}epsilon = {total:.5f}\n" + "".join(parts)


def edge_words(description: dict[str, Any]) -> list[list[int]]:
    """All words 0, all largest, and each at and below the first threshold of its question."""

    def every(pick: Any) -> list[int]:
        made: list[int] = []
        for question in description["questions"]:
            made += [pick(question["program"])] * question["program"]["words"]
        return made

    def first(program: dict[str, Any]) -> int:
        return int(program.get("truth", program.get("rare", 0)))

    return [every(lambda _: 0), every(lambda _: 2**64 - 1), every(first), every(lambda one: first(one) - 1)]


def runs_of(description: dict[str, Any], bits: SeededBits, many: int) -> list[dict[str, Any]]:
    made = []
    edges = edge_words(description)
    for number in range(many):
        answers: dict[str, int | None] = {}
        for question in description["questions"]:
            drawn = bits.integer(32) % (question["program"]["answers"] + 1)
            answers[question["id"]] = None if drawn == question["program"]["answers"] else drawn
        if number in (0, 1):
            answers = dict.fromkeys(answers)
        words = edges[number // 2 % 4] if number < 24 else [int(w) for w in bits.words(description["words"], 64)]
        report = randomize(description, answers, words).hex()
        made.append({"answers": answers, "words": [str(word) for word in words], "report": report})
    return made


def main() -> None:
    bits = SeededBits(64)
    cases = []
    for epsilons in SURVEYS.values():
        description = public_description(parse_survey(survey_text(epsilons)))
        cases.append({"description": description, "runs": runs_of(description, bits, 130)})
    (HERE / "vectors.json").write_text(json.dumps({"cases": cases}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
