"""The page's script makes the same reports as Python from the same words, and draws them from secure randomness."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lapwing.survey
from lapwing.survey.program import run
from support.needs import missing
from support.tape import SeededBits

if TYPE_CHECKING:
    from playwright.sync_api import Page

HERE = Path(__file__).parent
PAGES = Path(lapwing.survey.__file__).parent / "pages"
RANDOMIZE = PAGES / "randomize.js"
CASES: list[dict[str, Any]] = json.loads((HERE / "vectors.json").read_text(encoding="utf-8"))["cases"]
EXPECTED = [[one["report"] for one in case["runs"]] for case in CASES]
IN_BROWSER = """cases => cases.map(({description, runs}) =>
  runs.map(({answers, words}) => lapwing.randomize(description, answers, words.map(BigInt))))"""


def in_node(cases: list[dict[str, Any]]) -> Any:
    node = shutil.which("node")
    if node is None:
        missing("node", "nodejs")
    command = [node, str(HERE / "run_vectors.js"), str(RANDOMIZE)]
    done = subprocess.run(command, input=json.dumps({"cases": cases}), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def with_script(page: Page, source: str | None = None) -> Page:
    page.set_content("<!doctype html><title>t</title>")
    page.add_script_tag(content=RANDOMIZE.read_text(encoding="utf-8") if source is None else source)
    return page


def test_node_makes_the_reports_of_the_vectors() -> None:
    """lecture:L10"""
    assert in_node(CASES) == EXPECTED


def test_chromium_makes_the_reports_of_the_vectors(page: Page) -> None:
    assert with_script(page).evaluate(IN_BROWSER, CASES) == EXPECTED


def every_edge(question: dict[str, Any]) -> list[list[int]]:
    """Words at, below and above every threshold of a question's program, in every place of a word."""
    program = question["program"]
    truth, other = int(program.get("truth", 0)), int(program.get("other", 0))
    edges = {0, 1, 2**63 - 1, 2**63, 2**64 - 1, int(program.get("rare", 0))}
    edges |= {truth + i * other for i in range(program["symbols"])}
    edges |= {-(-(i << 64) // program[name]) for name in ("items", "steps") if name in program for i in range(9)}
    near = sorted({word + d for word in edges for d in (-1, 0, 1) if 0 <= word + d < 2**64})
    rest = SeededBits(11).words(program["words"], 64).tolist()
    return [[*rest[:i], word, *rest[i + 1 :]] for i in range(program["words"]) for word in near]


def test_the_script_agrees_with_python_at_every_threshold() -> None:
    """Each question by itself, for no answer and up to nine answers."""
    cases, expected = [], []
    for question in (question for case in CASES for question in case["description"]["questions"]):
        program = question["program"]
        answers = [None, *sorted({*range(min(8, program["answers"])), program["answers"] - 1})]
        runs = [
            {"answers": {question["id"]: answer}, "words": list(map(str, words))}
            for answer in answers
            for words in every_edge(question)
        ]
        cases.append({"description": {"words": program["words"], "questions": [question]}, "runs": runs})
        expected.append(
            [
                run(program, one["answers"][question["id"]], list(map(int, one["words"])))
                .to_bytes(program["bytes"], "little")
                .hex()
                for one in runs
            ]
        )
    assert sum(map(len, expected)) > 10_000
    assert in_node(cases) == expected


@pytest.mark.parametrize("answer", [-1, 2, 0.5, "1", True])
def test_the_script_refuses_what_is_no_answer(page: Page, answer: Any) -> None:
    description = {"words": 1, "questions": [CASES[0]["description"]["questions"][0]]}
    tried = """([description, answer]) => {
      try { return lapwing.randomize(description, {yes0: answer}, [1n]); } catch (error) { return error.name; }
    }"""
    assert with_script(page).evaluate(tried, [description, answer]) == "RangeError"


def test_words_are_read_with_the_highest_byte_first(page: Page) -> None:
    made = with_script(page).evaluate(
        "lapwing.toWords(new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 9])).map(String)"
    )
    assert made == [str(0x0102030405060708), "9"]


@pytest.mark.parametrize(
    "source",
    [
        "null",
        "{}",
        "{getRandomValues: null}",
        "{getRandomValues: (bytes) => bytes}",
        "{getRandomValues: () => { throw 1 }}",
    ],
)
def test_the_script_refuses_randomness_that_is_missing_or_broken(page: Page, source: str) -> None:
    tried = f"(() => {{ try {{ return lapwing.drawWords(2, {source}).length }} catch {{ return 'refused' }} }})()"
    assert with_script(page).evaluate(tried) == "refused"


def test_words_are_drawn_for_as_many_as_a_browser_gives_at_once(page: Page) -> None:
    assert with_script(page).evaluate("new Set(lapwing.drawWords(20000)).size") == 20_000
    nonces = page.evaluate("[lapwing.drawNonce(), lapwing.drawNonce()]")
    assert all(re.fullmatch("[0-9a-f]{32}", nonce) for nonce in nonces)
    assert nonces[0] != nonces[1]


def test_no_script_knows_other_randomness_a_clock_or_another_place() -> None:
    """Random numbers that can be guessed, time and storage that a browser sends along have no place in the form."""
    names = ("Math.random", "Date", "performance", "subtle", "cookie", "sessionStorage", "indexedDB", "sendBeacon")
    more = ("XMLHttpRequest", "WebSocket", "eval(", "innerHTML", "http:", "https:")
    banned = "|".join(map(re.escape, names + more))
    for name in ("randomize.js", "form.js"):
        code = re.sub(r"/\*.*?\*/|//[^\n]*", "", (PAGES / name).read_text(encoding="utf-8"), flags=re.DOTALL)
        assert re.findall(banned, code) == [], name
    assert "getRandomValues" not in (PAGES / "form.js").read_text(encoding="utf-8")


def test_templates_hold_no_script_or_style_of_their_own() -> None:
    """The policy that the server sends forbids them."""
    for template in sorted(PAGES.glob("*.html")):
        text = template.read_text(encoding="utf-8")
        scripts = re.findall(r"<script\b[^>]*>", text)
        assert all(" src=" in tag or 'type="application/json"' in tag for tag in scripts), template.name
        assert re.findall(r"<style|\sstyle=|\son[a-z]+=|javascript:", text) == [], template.name
        assert re.findall(r"(?:src|href|action)=\"(?:/|[a-z]+:)", text) == [], template.name
