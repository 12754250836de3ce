"""lapwing.collect.local."""

from __future__ import annotations

import pytest

from lapwing.collect import DirectEncoding, OneBitMean, Respondent
from lapwing.errors import Misconfigured
from lapwing.privacy.loss import Pure


def test_a_thousand_answers_are_one_report() -> None:
    """gate:G42 threat:A33 averaging gains nothing: every report is the first one, also after a restart or a change."""
    protocol, respondent = DirectEncoding(range(200), epsilon=1), Respondent()
    first = respondent.answer("age", protocol, 41)
    again = {respondent.answer("age", protocol, 41) for _ in range(500)}
    later = Respondent.from_json(respondent.to_json())
    again |= {later.answer("age", protocol, value) for value in range(200)}
    assert again == {first}
    assert respondent.loss == Pure(1)


def test_nothing_but_reports_is_kept() -> None:
    """Two respondents with different values and the same report keep the same."""
    protocol, kept = DirectEncoding(["no", "yes"], epsilon=1), set()
    for value in ("no", "yes") * 20:
        respondent = Respondent()
        respondent.answer("q", protocol, value)
        kept.add(respondent.to_json())
    assert len(kept) == 2


def test_questions_add_up() -> None:
    respondent = Respondent()
    assert respondent.loss is None
    respondent.answer("smokes", DirectEncoding(["no", "yes"], epsilon=0.5), "no")
    respondent.answer("age", OneBitMean((0, 120), epsilon=0.25), 33)
    assert respondent.loss == Pure(0.75)


def test_another_protocol_under_the_same_name_is_refused() -> None:
    respondent = Respondent()
    respondent.answer("q", DirectEncoding(["no", "yes"], epsilon=1), "no")
    with pytest.raises(Misconfigured, match="another protocol"):
        respondent.answer("q", DirectEncoding(["no", "yes"], epsilon=2), "no")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2, "reports": {}}', '{"format": 1, "reports": {"a": 1}}'])
def test_text_that_holds_no_reports_is_refused(text: str) -> None:
    with pytest.raises(Misconfigured):
        Respondent.from_json(text)
