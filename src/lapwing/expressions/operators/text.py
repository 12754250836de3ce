r"""Text functions. They work on characters, never on bytes, in time linear in the length of the text.

Every function of a text, casts too, sees its first 1,000 characters (to_sqlglot.py), and what `||` makes is cut there,
so that a long text does not make a question slow. Comparisons, CASE and COALESCE take texts whole. A LIKE pattern
contains % or _, not both. With one of them the engine's LIKE scans the text once from left to right; with both it tries
every placement, and the time that takes would leak what a row contains. REPLACE never makes a text longer, so that
nested ones take a pass each; five that double a text would take 32 times as long, or not, as one text decides.

A regular expression is a constant of at most 200 characters, which every engine with a linear matcher reads alike:
characters, `.`, `\d \D \s \S \w \W` (ASCII), any of `\.^$|?*+()[]{}-/` after a backslash, classes such as `[a-z]` and
`[^0-9]`, groups, `|`, `^`, `$`, and the repeats `? * + {n} {n,} {n,m}`. Written out, with every repeat in full, it has
at most 200 parts.

Guarantee:  an admitted pattern compiles, and matching a text takes a bounded number of steps, whatever the text is: for
            each of at most 1,000 characters at most one for each of 200 parts.
Proof:      RE2 builds an automaton with a state for each part and never backtracks, so a character costs at most one
            step for each state. How many it takes below that bound does depend on the text. The pattern is inside
            a group, since DuckDB may otherwise run a plain one as LIKE, which tries every placement of % and _.
Checked by: tests/expressions/test_patterns.py
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from lapwing.expressions import bounds, forms
from lapwing.expressions.expression import Expression, Literal, Operator
from lapwing.expressions.operators.base import MOST_TEXT, Node, Types, is_whole, only, paren, shortened
from lapwing.expressions.types import Type

MOST_PATTERN = 200
MOST_PARTS = 200
_MOST_REPEATS = 100
CLASSES = frozenset(rf"\{letter}" for letter in "dDsSwW")
_ESCAPE = r"\\[.^$|?*+()\[\]{}\\\-/dDsSwW]"
_MEMBER = rf"({_ESCAPE}|[^\[\]\\^-])"
RANGE = re.compile(rf"{_MEMBER}(?:-{_MEMBER})?", re.DOTALL)
_TOKEN = re.compile(
    rf"(?P<open>\((?:\?:)?)|[|^$](?![?*+{{])|(?P<element>\)|{_ESCAPE}|\[\^?(?:{RANGE.pattern})+\]|[^\\^$|?*+()\[\]{{}}])"
    r"(?:[?*+]|(?P<counted>\{[0-9]{1,3}(?:,[0-9]{0,3})?\}))?(?![?*+{])",
    re.DOTALL,
)


def is_linear(pattern: str) -> bool:
    """True if the pattern is in the subset."""
    return len(pattern) <= MOST_PATTERN and parts_of(pattern) <= MOST_PARTS


def parts_of(pattern: str) -> int:
    """How many parts a pattern has, written out in full; more than are allowed if it is not in the subset."""
    totals, end = [0], 0  # of the groups that are open
    while end < len(pattern) and totals[-1] <= MOST_PARTS:
        token = _TOKEN.match(pattern, end)
        if token is None or not _is_ordered(token["element"] or "") or (token["element"] == ")" and len(totals) == 1):
            return MOST_PARTS + 1
        end = token.end()
        if token["open"]:
            totals.append(0)
        else:
            size = 1 + totals.pop() if token["element"] == ")" else 1
            totals[-1] += size * _repeats(token)
    return totals[0] if len(totals) == 1 else MOST_PARTS + 1


def _is_ordered(element: str) -> bool:
    """Whether every range of a class, such as a-z, has two characters in their order as ends."""
    ends = [(low, high) for low, high in RANGE.findall(element[1:-1]) if high] if element.startswith("[") else []
    return all(low[-1] <= high[-1] and not {low, high} & CLASSES for low, high in ends)


def _repeats(token: re.Match[str]) -> int:
    """How often an element is written out."""
    if not token["counted"]:
        return 2 if token[0][-1] in "?*+" and token[0] != token["element"] else 1
    least, comma, most = token["counted"][1:-1].partition(",")
    low, high = int(least), int(most) if most else int(least) + bool(comma)
    return high + 1 if low <= high and 1 <= high <= _MOST_REPEATS else MOST_PARTS + 1


_TEXT = only(Type.TEXT, gives=Type.TEXT)
_TEST = only(Type.TEXT, gives=Type.BOOLEAN, least=2, most=2)


def _like(value: Node, pattern: Node) -> Node:
    if isinstance(pattern, exp.Null):
        return exp.Null()
    return paren(forms.Matches(this=value, expression=exp.Literal.string(pattern.name)))


def _ilike(value: Node, pattern: Node) -> Node:
    """Both in lower case, letter by letter, as LOWER has it."""
    is_null = isinstance(pattern, exp.Null)
    lower = "".join(letter.lower()[0] for letter in pattern.name)
    return _like(forms.Lower(this=value), pattern if is_null else exp.Literal.string(lower))


def _pattern(_: Expression, pattern: Expression) -> str | None:
    if isinstance(pattern, Literal) and "%" in str(pattern.value) and "_" in str(pattern.value):
        return "Use % or _ in a pattern, not both: with both, the running time would leak the text. Or use SUBSTRING."
    if isinstance(pattern, Literal) and len(str(pattern.value)) <= MOST_PATTERN:
        return None
    return f"Use a constant of at most {MOST_PATTERN} characters, such as 'A%'."


def _plain(_: Expression, part: Expression) -> str | None:
    if isinstance(part, Literal) and len(str(part.value)) <= MOST_PATTERN:
        return None
    return f"Use a constant of at most {MOST_PATTERN} characters, such as 'A'."


def _regular_expression(_: Expression, pattern: Expression) -> str | None:
    if isinstance(pattern, Literal) and isinstance(pattern.value, str) and is_linear(pattern.value):
        return None
    return (
        f"Use a constant of at most {MOST_PATTERN} characters, such as '^[A-Z][0-9]+$': characters, . [] () | ^ $, "
        "\\d \\w \\s, and the repeats ? * + {2,5}."
    )


def _positions(_: Expression, *numbers: Expression) -> str | None:
    if all(is_whole(n, 1 - i, MOST_TEXT) for i, n in enumerate(numbers)):
        return None
    return f"Use constants, as in SUBSTRING(s, 1, 3); positions go from 1 to {MOST_TEXT:,}."


def _amount(_: Expression, count: Expression) -> str | None:
    return None if is_whole(count, 0, MOST_TEXT) else f"Use a constant from 0 to {MOST_TEXT:,}, as in RIGHT(s, 3)."


def _replaced(_: Expression, found: Expression, new: Expression) -> str | None:
    texts = [part.value for part in (found, new) if isinstance(part, Literal) and isinstance(part.value, str)]
    if len(texts) == 2 and 1 <= len(texts[0]) <= MOST_PATTERN:
        shorter = len(texts[1]) <= len(texts[0]) and len(texts[1].encode()) <= len(texts[0].encode())
        return None if shorter else "Use a replacement that is not longer than what it replaces; nested, it would grow."
    return f"Use constants, as in REPLACE(s, 'ab', ''); the first has 1 to {MOST_PATTERN} characters."


def _split(_: Expression, separator: Expression, place: Expression) -> str | None:
    text = separator.value if isinstance(separator, Literal) else None
    if isinstance(text, str) and 1 <= len(text) <= MOST_PATTERN and is_whole(place, 1, MOST_TEXT):
        return None
    return f"Use constants, as in SPLIT_PART(s, '-', 1); places go from 1 to {MOST_TEXT:,}."


def _texts_and_numbers(texts: int, least: int, most: int) -> Callable[[Types], Type | None]:
    """For this many texts, followed by `least` to `most` integers."""

    def result(types: Types) -> Type | None:
        first, rest = types[:texts], types[texts:]
        fits = len(first) == texts and least <= len(rest) <= most and set(first) <= {Type.TEXT, None}
        return Type.TEXT if fits and set(rest) <= {Type.INTEGER} else None

    return result


def _text_function(name: str, emit: Callable[[Node], Node], meaning: str) -> Operator:
    return Operator(name, _TEXT, emit, "text", height=1, sql=f"{name.upper()}(s)", meaning=f"{meaning} {_NULL}")


def _trim(name: str, side: str | None, where: str) -> Operator:
    return _text_function(name, lambda a: exp.Trim(this=a, position=side), f"Without spaces at {where}.")


def _text_test(
    name: str, emit: Callable[[Node, Node], Node], sql: str, meaning: str, admit: Callable[..., str | None] = _plain
) -> Operator:
    takes = "text and a constant pattern"
    return Operator(name, _TEST, emit, takes, admit=admit, sql=sql, meaning=f"{meaning} {_NULL}")


def _part_test(name: str, form: forms.Form, words: str) -> Operator:
    sql, meaning = f"{name.upper()}(s, 'a')", f"True if s {words} 'a'."
    return _text_test(name, lambda value, part: form(this=value, expression=part), sql, meaning)


_NULL = "NULL stays NULL."

LIKE = _text_test(
    "like",
    _like,
    "s LIKE 'A%'",
    "True if s matches: % is any text, _ any character; not both in one pattern.",
    _pattern,
)
ILIKE = _text_test("ilike", _ilike, "s ILIKE 'a%'", "LIKE, ignoring case.", _pattern)
STARTS_WITH = _part_test("starts_with", forms.StartsWith, "starts with")
ENDS_WITH = _part_test("ends_with", forms.EndsWith, "ends with")
CONTAINS = _part_test("contains", forms.Contains, "contains")
REGEXP_MATCHES = _text_test(
    "regexp_matches",
    lambda value, pattern: forms.HasMatch(this=value, expression=exp.Literal.string(f"({pattern.name})")),
    "REGEXP_MATCHES(s, '^[A-Z][0-9]+')",
    "True if the pattern matches a part of s; ^ and $ are its start and end, . is any character but a line break.",
    _regular_expression,
)
LOWER = _text_function("lower", lambda a: forms.Lower(this=a), "In lower case, letter by letter.")
UPPER = _text_function("upper", lambda a: forms.Upper(this=a), "In upper case, letter by letter: ß is ẞ.")
TRIM = _trim("trim", None, "both ends")
LTRIM = _trim("ltrim", "LEADING", "the start")
RTRIM = _trim("rtrim", "TRAILING", "the end")
LENGTH = Operator(
    "length",
    only(Type.TEXT, gives=Type.INTEGER),
    lambda a: exp.Length(this=shortened(a)),
    "a text",
    bounds.always(0, MOST_TEXT),
    sql="LENGTH(s)",
    meaning=f"The number of characters, at most {MOST_TEXT:,}. {_NULL}",
)
SUBSTRING = Operator(
    "substring",
    _texts_and_numbers(1, least=1, most=2),
    lambda a, start, length=None: exp.Substring(this=a, start=start, length=length),
    "text and constant positions",
    admit=_positions,
    height=1,
    sql="SUBSTRING(s, 1, 3)",
    meaning=f"The first three characters. LEFT(s, 3) is the same. {_NULL}",
)
RIGHT = Operator(
    "right",
    _texts_and_numbers(1, least=1, most=1),
    lambda a, count: exp.Right(this=a, expression=count),
    "text and a constant",
    admit=_amount,
    height=1,
    sql="RIGHT(s, 3)",
    meaning=f"The last three characters. {_NULL}",
)
JOIN = Operator(
    "||",
    only(Type.TEXT, gives=Type.TEXT, least=2, most=2),
    lambda a, b: shortened(paren(exp.DPipe(this=a, expression=b))),
    "two texts; CAST(x AS TEXT) turns an integer into text",
    sql="s || 'a'",
    meaning=f"Both texts, cut at {MOST_TEXT:,} characters; NULL if either is NULL. CONCAT(s, 'a') treats NULL as ''.",
)
REPLACE = Operator(
    "replace",
    only(Type.TEXT, gives=Type.TEXT, least=3, most=3),
    lambda a, found, new: forms.Replace(this=a, expression=found, replacement=new),
    "a text and two constants",
    admit=_replaced,
    height=1,
    sql="REPLACE(s, 'ab', 'a')",
    meaning=f"Every 'ab' becomes 'a'; the new text is not longer than the old one. {_NULL}",
)
SPLIT_PART = Operator(
    "split_part",
    _texts_and_numbers(2, least=1, most=1),
    lambda a, separator, place: forms.SplitPart(this=a, expression=separator, place=place),
    "a text, a constant separator and a constant place",
    admit=_split,
    height=1,
    sql="SPLIT_PART(s, '-', 1)",
    meaning=f"The first part of s between separators; '' if it has fewer parts. {_NULL}",
)

TEXTUAL = (
    LIKE, ILIKE, STARTS_WITH, ENDS_WITH, CONTAINS, REGEXP_MATCHES, LOWER, UPPER, TRIM, LTRIM, RTRIM, LENGTH, SUBSTRING,
    RIGHT, REPLACE, SPLIT_PART, JOIN,
)  # fmt: skip
