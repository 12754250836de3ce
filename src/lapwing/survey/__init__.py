"""Surveys whose answers cannot be read: they are randomized in the respondent's browser.

`definition` says what a survey is and `reading` reads it from survey.toml; `question`, `several` and `numeric` are the
kinds of questions with their guarantees; `program` is what the browser runs and `wire` what it sends.
"""

from lapwing.survey.definition import Survey
from lapwing.survey.read_toml import parse_survey, read_survey
from lapwing.survey.wire import public_description, randomize

__all__ = ["Survey", "parse_survey", "public_description", "randomize", "read_survey"]
