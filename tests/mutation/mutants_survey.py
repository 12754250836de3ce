"""The mistakes in surveys: what a browser is told to do, what the server takes, and what is said of it."""

from __future__ import annotations

from mutant import Mutant

LAW = ("tests/survey/test_programs.py",)
TAKEN = ("tests/survey/test_stores.py", "tests/survey/test_survey_app.py")
SAID = ("tests/survey/test_results.py", "tests/survey/test_multiple_choice.py", "tests/survey/test_numeric.py")
READ = ("tests/survey/test_read_toml.py",)

SURVEY: tuple[Mutant, ...] = (
    Mutant(
        "survey: no answer is sent as it is",
        "run",
        "spread(program, program['symbols'] - 1 if answer is None else answer, words[0])",
        "spread(program, answer, words[0]) if answer is not None else program['symbols'] - 1",
        "who does not answer is told apart",
        LAW,
    ),
    Mutant(
        "survey: the coin of no answer falls on one side",
        "run",
        "words[0] >> width - 1",
        "0",
        "who does not answer is told apart",
        LAW,
    ),
    Mutant(
        "survey: the item depends on the answer",
        "run",
        "words[0] * int(program['items']) >> width",
        "(answer or 0) % int(program['items'])",
        "which option a report is about tells what was chosen",
        LAW,
    ),
    Mutant(
        "survey: the held bit is sure",
        "run",
        "word < (half if i == held else rare)",
        "i == held or word < rare",
        "a report always marks the true answer",
        LAW,
    ),
    Mutant(
        "survey: rounding always goes down",
        "_grid",
        "point + (word * steps < rest << width)",
        "point",
        "the mean comes out too small",
        LAW,
    ),
    Mutant(
        "survey: other symbols are not shifted past the truth",
        "spread",
        "other + (other >= place)",
        "other",
        "the truth is sent more often than epsilon allows",
        LAW,
    ),
    Mutant(
        "survey: two coins that favour the truth",
        "TwoCoins.coin",
        "SymbolCoin(3 << self.width - 2, 1 << self.width - 2, self.width)",
        "SymbolCoin(7 << self.width - 3, 1 << self.width - 3, self.width)",
        "the class survey costs ln 7, not ln 3",
        LAW,
    ),
    Mutant(
        "survey: a set is randomized for an option",
        "Several.program",
        "spread(self.epsilon, chosen.symbols, width=width)",
        "spread(self.epsilon * 2, chosen.symbols, width=width)",
        "a selection costs twice what is said",
        LAW,
    ),
    Mutant(
        "survey: the total is not the sum",
        "Survey.__post_init__",
        "self.epsilon != total",
        "self.epsilon > total",
        "respondents lose more than they are told",
        READ,
    ),
    Mutant(
        "survey: reports out of their domain count",
        "Reader.read",
        "number >= most",
        "number > most",
        "a forged report is counted",
        TAKEN,
    ),
    Mutant(
        "survey: a second report with a nonce is taken",
        "SqliteSurveyStore.add",
        "return Kept.ALREADY if found[0] == report else Kept.NONCE_TAKEN",
        "connection.execute('UPDATE reports SET report = ? WHERE nonce = ?', (report, nonce))",
        "the first answer does not stand",
        TAKEN,
    ),
    Mutant(
        "survey: invitations work for ever",
        "SqliteSurveyStore.add",
        "used is None or used[0]",
        "used is None",
        "one respondent counts many times",
        TAKEN,
    ),
    Mutant(
        "survey: reports are not synced",
        "SqliteSurveyStore._begin_with",
        "'PRAGMA synchronous = FULL'",
        "'PRAGMA synchronous = NORMAL'",
        "a report that was acknowledged is lost with the power",
        TAKEN,
    ),
    Mutant(
        "survey: results for everyone",
        "SurveyServer._allow",
        "hmac.compare_digest(given, self.key.encode())",
        "given",
        "any key opens the results",
        TAKEN,
    ),
    Mutant(
        "survey: results from the first report on",
        "results",
        "len(reports) < survey.report_from",
        "len(reports) < 1",
        "numbers are shown that say nothing",
        SAID,
    ),
    Mutant(
        "survey: sets support options by the wrong chance",
        "Design.supports",
        "(self.coin.p + (half - 1) * self.coin.q, half * self.coin.q)",
        "(self.coin.p, self.coin.q)",
        "estimates are wrong",
        SAID,
    ),
    Mutant(
        "survey: who does not answer has a mean",
        "Numeric._mean",
        "float(counts.mean()) - q * points",
        "float(self.protocol.p) - q",
        "the mean is drawn to the middle by who did not answer",
        SAID,
    ),
)
