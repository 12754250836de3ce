"""The mistakes in surveys: what a browser is told to do, what the server takes, and what is said of it."""

from __future__ import annotations

from mutant import Mutant

LAW = ("tests/survey/test_programs.py",)
TAKEN = ("tests/survey/test_stores.py", "tests/survey/test_app.py")
SAID = ("tests/survey/test_results.py", "tests/survey/test_multiple_choice.py", "tests/survey/test_numeric.py")
READ = ("tests/survey/test_read_toml.py",)
_PROGRAM = "survey/program.py"
_SEVERAL = "survey/multiple_choice.py"
_SQLITE = "survey/sqlite_store.py"

SURVEY: tuple[Mutant, ...] = (
    Mutant(
        "survey: no answer is sent as it is",
        _PROGRAM,
        'return spread(program, program["symbols"] - 1 if answer is None else answer, words[0])',
        'return spread(program, answer, words[0]) if answer is not None else program["symbols"] - 1',
        "who does not answer is told apart",
        LAW,
    ),
    Mutant(
        "survey: the coin of no answer falls on one side",
        _PROGRAM,
        "return words[0] >> width - 1 if answer is None",
        "return 0 if answer is None",
        "who does not answer is told apart",
        LAW,
    ),
    Mutant(
        "survey: the item depends on the answer",
        _PROGRAM,
        'item = words[0] * int(program["items"]) >> width',
        'item = (answer or 0) % int(program["items"])',
        "which option a report is about tells what was chosen",
        LAW,
    ),
    Mutant(
        "survey: the held bit is sure",
        _PROGRAM,
        "word < (half if i == held else rare)",
        "i == held or word < rare",
        "a report always marks the true answer",
        LAW,
    ),
    Mutant(
        "survey: rounding always goes down",
        _PROGRAM,
        "return point + (word * steps < rest << width)",
        "return point",
        "the mean comes out too small",
        LAW,
    ),
    Mutant(
        "survey: other symbols are not shifted past the truth",
        _PROGRAM,
        "return other + (other >= place)",
        "return other",
        "the truth is sent more often than epsilon allows",
        LAW,
    ),
    Mutant(
        "survey: two coins that favour the truth",
        "survey/question.py",
        "SymbolCoin(3 << self.width - 2, 1 << self.width - 2, self.width)",
        "SymbolCoin(7 << self.width - 3, 1 << self.width - 3, self.width)",
        "the class survey costs ln 7, not ln 3",
        LAW,
    ),
    Mutant(
        "survey: a set is randomized for an option",
        _SEVERAL,
        "coin = spread(self.epsilon, chosen.symbols, width=width)",
        "coin = spread(self.epsilon * 2, chosen.symbols, width=width)",
        "a selection costs twice what is said",
        LAW,
    ),
    Mutant(
        "survey: the total is not the sum",
        "survey/definition.py",
        "if self.epsilon != total:",
        "if self.epsilon > total:",
        "respondents lose more than they are told",
        READ,
    ),
    Mutant(
        "survey: reports out of their domain count",
        "survey/wire.py",
        "if any(number >= most for",
        "if any(number > most for",
        "a forged report is counted",
        TAKEN,
    ),
    Mutant(
        "survey: a second report with a nonce is taken",
        _SQLITE,
        "return Kept.ALREADY if found[0] == report else Kept.NONCE_TAKEN",
        'connection.execute("UPDATE reports SET report = ? WHERE nonce = ?", (report, nonce))',
        "the first answer does not stand",
        TAKEN,
    ),
    Mutant(
        "survey: invitations work for ever",
        _SQLITE,
        "if used is None or used[0]:",
        "if used is None:",
        "one respondent counts many times",
        TAKEN,
    ),
    Mutant(
        "survey: reports are not synced",
        _SQLITE,
        'connection.execute("PRAGMA synchronous = FULL")',
        'connection.execute("PRAGMA synchronous = NORMAL")',
        "a report that was acknowledged is lost with the power",
        TAKEN,
    ),
    Mutant(
        "survey: results for everyone",
        "survey/app.py",
        'if self.survey.results != "public" and not hmac.compare_digest(given, self.key.encode()):',
        'if self.survey.results != "public" and not given:',
        "any key opens the results",
        TAKEN,
    ),
    Mutant(
        "survey: results from the first report on",
        "survey/results.py",
        "    if len(reports) < survey.report_from:\n        return",
        "    if len(reports) < 1:\n        return",
        "numbers are shown that say nothing",
        SAID,
    ),
    Mutant(
        "survey: sets support options by the wrong chance",
        _SEVERAL,
        "return self.coin.p + (half - 1) * self.coin.q, half * self.coin.q",
        "return self.coin.p, self.coin.q",
        "estimates are wrong",
        SAID,
    ),
    Mutant(
        "survey: who does not answer has a mean",
        "survey/numeric.py",
        "top, below = float(sums.mean()), float(counts.mean()) - q * points",
        "top, below = float(sums.mean()), float(self.protocol.p) - q",
        "the mean is drawn to the middle by who did not answer",
        SAID,
    ),
)
