"""The description of a survey for the browser, and the messages that come back."""

from __future__ import annotations

import json

import pytest

from lapwing.survey import public_description, randomize
from lapwing.survey.wire import Malformed, OtherSurvey, Reader, canonical, message_length, message_text
from support.survey_server import message
from support.surveys import survey
from support.tape import SeededBits


def test_thresholds_are_texts_that_javascript_reads_exactly() -> None:
    """A number of JavaScript has 53 bits; thresholds have 64."""
    for question in public_description(survey())["questions"]:
        program = question["program"]
        texts = [program[name] for name in ("truth", "other", "rare") if name in program]
        assert texts
        assert all(isinstance(text, str) and 0 < int(text) < 1 << 64 for text in texts)
        small = [value for value in program.values() if isinstance(value, int)]
        assert all(value < 1 << 53 for value in small)


def test_a_description_is_written_in_one_way() -> None:
    description = public_description(survey())
    again = json.loads(canonical(description))
    assert again == description
    assert canonical(dict(reversed(again.items()))) == canonical(description)


def test_odds_are_natural_frequencies_of_the_law() -> None:
    for question in public_description(survey())["questions"]:
        odds, program = question["odds"], question["program"]
        if "truth" in program:
            assert odds["truth"] == round(100 * int(program["truth"]) / 2**64)
            assert odds["other"] == round(100 * int(program["other"]) / 2**64)
            assert str(odds["truth"]) in odds["sentence"]
        else:
            assert (odds["truth"], odds["heads"]) == (50, None)
        assert odds["symbols"] == program["symbols"]


def test_a_message_is_read_as_it_was_made() -> None:
    asked = survey()
    description, bits = public_description(asked), SeededBits(6)
    words = [int(word) for word in bits.words(description["words"], 64)]
    report = randomize(description, {"mood": 1}, words)
    text = message_text(description, bytes(range(16)), report)
    read = Reader(asked).read(text.encode())
    assert (read.nonce, read.report, read.invitation) == (bytes(range(16)), report, "")
    assert len(text) == message_length(asked)


def test_words_are_as_many_and_as_long_as_declared() -> None:
    description = public_description(survey("overtime"))
    for words in ([], [1, 2], [1 << 64], [-1]):
        with pytest.raises(ValueError, match="words"):
            randomize(description, {}, words)


def test_answers_that_the_form_does_not_offer_are_not_randomized() -> None:
    description = public_description(survey("overtime"))
    for answer in (-1, 2):
        with pytest.raises(ValueError, match="not one"):
            randomize(description, {"overtime": answer}, [0])


def test_messages_to_others_are_told_from_malformed_ones() -> None:
    asked = survey("overtime")
    reader, sent = Reader(asked), message(asked)
    with pytest.raises(OtherSurvey, match="Load it again"):
        reader.read(sent.replace(reader.id, "0" * 32).encode())
    with pytest.raises(Malformed, match="no reports"):
        reader.read(sent.replace('"nonce"', '"Nonce"').encode())
    with pytest.raises(Malformed, match="out of its domain"):
        reader.read(message_text({"survey": reader.id}, bytes(16), b"\x03").encode())
