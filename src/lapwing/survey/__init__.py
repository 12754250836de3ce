"""Surveys whose answers cannot be read: they are randomized in the respondent's browser.

`definition` has the survey, which `read_toml` reads from a file; `survey_question`, `multiple_choice` and `numeric` the
kinds of questions with their guarantees; `program` what the browser runs, and `wire` what it sends.
"""

from lapwing.survey.definition import Survey
from lapwing.survey.read_toml import parse_survey, read_survey
from lapwing.survey.wire import public_description, randomize

__all__ = ["Survey", "parse_survey", "public_description", "randomize", "read_survey"]
