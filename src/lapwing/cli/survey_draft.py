"""The survey.toml that `lapwing survey new` writes: every kind of question once, to be changed."""

from __future__ import annotations

DRAFT = """\
# A survey whose answers are randomized in the respondent's browser.
# Change every line that does not fit. docs/survey.md explains each of them.

title = "How we work"
about = "Five questions about your work. They take two minutes."
run_by = "The statistics group"            # who asks, as respondents know you
contact = "survey@example.org"             # where they can ask back
epsilon = 4.5                              # what one respondent loses in all: the sum over the questions
report_from = 100                          # minimum reports before results are shown
invitations = false                        # true: only who has a link of `lapwing survey invite` can answer
# results = "public"                       # without it, only who has the link that `serve` prints sees them
# url = "https://survey.example.org"       # for a copy of the form that is hosted elsewhere
# origins = ["https://forms.example.org"]  # where that copy is

[[questions]]
id = "overtime"
text = "Did you work overtime last week without recording it?"
kind = "yes-no"
epsilon = 1

[[questions]]
id = "mood"
text = "How do you feel about your work?"
kind = "choice"
options = ["good", "fair", "poor"]
epsilon = 1

[[questions]]
id = "trouble"
text = "Which of these have you had in the last year?"
kind = "several"                           # one epsilon for the whole selection
options = ["a conflict", "sleepless nights", "thoughts of leaving"]
epsilon = 1

[[questions]]
id = "hours"
text = "How many hours did you work last week?"
kind = "number"                            # its mean, and points = 9 for a finer picture
range = [0, 80]
step = 1
unit = "hours"
epsilon = 1

[[questions]]
id = "again"
text = "Would you join us again?"
kind = "yes-no"
epsilon = 0.5
"""
