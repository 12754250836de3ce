r"""Regular expressions of the language as PostgreSQL's.

The subset of expressions/operators/text.py means in RE2: `\d`, `\w` and `\s` are ASCII, `.` is any character but a
line break, `[^a]` matches line breaks, `^` and `$` are the ends of the text. PostgreSQL's own classes follow the locale
and its `.` matches line breaks, so classes and dots are written out as ranges of characters.

Guarantee:  a written pattern compiles, and matches what RE2 matches, in linear time.
Proof:      PostgreSQL runs patterns without back references by an automaton, and `~` captures nothing. The rest of the
            subset is written alike in both.
Checked by: tests/engines/test_postgres_patterns.py
"""

from __future__ import annotations

_RANGES = {
    "d": [(0x30, 0x39)],
    "w": [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)],
    "s": [(0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20)],
}
_FIRST, _LAST = 0x01, 0x10FFFF
_CLASSES = "dDwWsS"


def translate(pattern: str) -> str:
    """An admitted pattern, as PostgreSQL writes it."""
    found, place = "", 0
    while place < len(pattern):
        character = pattern[place]
        if character == "\\":
            escaped = pattern[place : place + 2]
            found += _class(_members(escaped[1]), negated=False) if escaped[1] in _CLASSES else escaped
            place += 2
        elif character == "[":
            text, place = _bracket(pattern, place + 1)
            found += text
        else:
            found += r"[^\n]" if character == "." else character
            place += 1
    return found


def _bracket(pattern: str, place: int) -> tuple[str, int]:
    """A class in brackets, from after the opening one, and the place after it."""
    negated = pattern[place] == "^"
    place += negated
    ranges: list[tuple[int, int]] = []
    while pattern[place] != "]" or not ranges:
        first, place = _member(pattern, place)
        if len(first) == 1 and pattern[place] == "-" and pattern[place + 1] != "]":
            last, place = _member(pattern, place + 1)
            first = [(first[0][0], last[0][1])]
        ranges += first
    return _class(ranges, negated=negated), place + 1


def _member(pattern: str, place: int) -> tuple[list[tuple[int, int]], int]:
    if pattern[place] != "\\":
        return [(ord(pattern[place]),) * 2], place + 1
    escaped = pattern[place + 1]
    return _members(escaped) if escaped in _CLASSES else [(ord(escaped),) * 2], place + 2


def _members(letter: str) -> list[tuple[int, int]]:
    """The characters of \\d, or of \\D, which are all others."""
    ranges = _RANGES[letter.lower()]
    if letter.islower():
        return ranges
    starts = [_FIRST, *(high + 1 for _, high in ranges)]
    return list(zip(starts, [*(low - 1 for low, _ in ranges), _LAST], strict=True))


def _class(ranges: list[tuple[int, int]], *, negated: bool) -> str:
    pairs = [(_character(low), _character(high)) for low, high in ranges]
    written = "".join(low if low == high else f"{low}-{high}" for low, high in pairs)
    return f"[{'^' if negated else ''}{written}]"


def _character(code: int) -> str:
    return chr(code) if chr(code).isalnum() and code < 0x80 else f"\\U{code:08X}"
