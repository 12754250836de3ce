"""Simulated respondents, for demonstrations and trials: they randomize as a browser does."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lapwing.noise.bits import SYSTEM, BitSource
from lapwing.survey.definition import Survey
from lapwing.survey.read_toml import parse_survey
from lapwing.survey.report_store import SurveyStore
from lapwing.survey.wire import NONCE_BYTES, Reader, message_text, public_description, randomize

Answers = Mapping[str, int | None]

CLASS_SURVEY = """
title = "The class survey with two coins"
about = "Toss a coin in private. Tails: answer truthfully. Heads: toss again, and let the second coin answer. \
Your device does it for you."
run_by = "your teacher"
contact = "ask in class"
epsilon = 1.09862
report_from = 10
results = "public"

[[questions]]
id = "cheated"
text = "Have you ever cheated in an exam?"
kind = "two-coins"
"""
SHARE = 30
"""Of 100 simulated people, those who would say yes."""


@dataclass(frozen=True)
class Simulated:
    """Makes messages to a survey and hands them to its store, through the same checks that posted ones go through."""

    survey: Survey
    store: SurveyStore
    bits: BitSource = field(default=SYSTEM)

    def arrive(self, everyone: Iterable[Answers], *, pause: float = 0.0, stop: threading.Event | None = None) -> int:
        """Sends a message for each of them, `pause` seconds apart, and returns how many."""
        description, reader, sent = public_description(self.survey), Reader(self.survey), 0
        waiting = stop or threading.Event()
        for answers in everyone:
            if waiting.wait(pause) if pause else waiting.is_set():
                break
            words = [int(word) for word in self.bits.words(description["words"], 64)]
            nonce = self.bits.integer(8 * NONCE_BYTES).to_bytes(NONCE_BYTES, "big")
            text = message_text(description, nonce, randomize(description, answers, words))
            message = reader.read(text.encode())
            self.store.add(message.nonce, message.report)
            sent += 1
        return sent


def class_survey() -> Survey:
    """The survey of the demonstration: one question, by two coins."""
    return parse_survey(CLASS_SURVEY, "the class survey")


def class_answers(number: int) -> list[Answers]:
    """30 of every 100 would say yes; all answer."""
    return [{"cheated": int(person * 37 % 100 < SHARE)} for person in range(number)]
