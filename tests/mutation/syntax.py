"""Finds code by its syntax, in whichever file it stands, and puts a mistake in its place.

A mistake names a definition (`Class.method`, `function` or the name that a value is given), the code that is taken out
and the code that is put in. Code is compared as a syntax tree: line breaks, comments, quotes and files do not matter.

- Two expressions: the first is replaced wherever it stands in the definition.
- A string or f-string: it may be a part of a longer one.
- Anything else is a run of statements. `pass` stands for none.

The code must be there exactly once. A definition of the same name elsewhere does no harm if it lacks the code.
"""

from __future__ import annotations

import ast
import copy
import functools
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from changes import positions
from trial import PACKAGE

Found = tuple[ast.expr | ast.stmt, ast.expr | ast.stmt, str]
"""Where code stands: its first node, its last, and the text that replaces them."""


class NoMistake(Exception):
    """The code is not there, is there more than once, or stays the program that it was."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The text of each file of a package."""

    texts: Mapping[str, str]

    def named(self, where: str) -> Iterator[tuple[str, ast.AST]]:
        """Every definition of this name, with its file."""
        names = where.split(".")
        for file, text in self.texts.items():
            if all(name in text for name in names):
                yield from ((file, node) for node in _defined(text).get(where, []))


@functools.cache
def package() -> Sources:
    """The sources of the package."""
    files = sorted(PACKAGE.rglob("*.py"))
    return Sources({path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in files})


def normal(code: str) -> str:
    """The code as everybody would write it."""
    return ast.unparse(ast.parse(textwrap.dedent(code)))


@dataclass(frozen=True, slots=True)
class Mistake:
    """Code that is taken out of a definition, and what is put in."""

    where: str
    before: str
    after: str

    def applied(self, sources: Sources | None = None) -> tuple[str, str]:
        """The file that it changes, and its text with the mistake in it."""
        sources = sources or package()
        named = list(sources.named(self.where))
        found = [(file, *place) for file, node in named for place in self._in(node)]
        if not found:
            raise NoMistake(f"`{self.where}` {'lacks this code' if named else 'is not defined'}: {self.before}")
        if len(found) > 1:
            places = ", ".join(f"{file}:{first.lineno}" for file, first, *_ in found)
            raise NoMistake(f"`{self.where}` has this code {len(found)} times ({places}): {self.before}")
        if normal(self.before) == normal(self.after):
            raise NoMistake(f"`{self.where}` is the same program with: {self.after}")
        ((file, first, last, new),) = found
        text = sources.texts[file]
        place = positions(text)
        start, end = place(first.lineno, first.col_offset), place(last.end_lineno or 0, last.end_col_offset or 0)
        changed = text[:start] + new + text[end:]
        compile(changed, file, "exec")
        return file, changed

    def _in(self, node: ast.AST) -> Iterator[Found]:
        """Each place of the code in a definition."""
        old, new = (ast.parse(textwrap.dedent(code)).body for code in (self.before, self.after))
        match old, new:
            case [ast.Expr(value=taken)], [ast.Expr(value=put)]:
                for found, host in _expressions(node):
                    for made in _replaced(found, taken, put):
                        text = self.after if host is found and made is put else ast.unparse(_with(host, found, made))
                        yield host, host, f"({text})"
            case _:
                for run in _runs(node, [ast.dump(one) for one in old]):
                    indent = " " * run[0].col_offset
                    yield run[0], run[-1], textwrap.indent(textwrap.dedent(self.after), indent).strip()


@functools.cache
def _defined(text: str) -> dict[str, list[ast.AST]]:
    found: dict[str, list[ast.AST]] = {}
    for name, node in _definitions(ast.parse(text), ""):
        found.setdefault(name, []).append(node)
    return found


def _definitions(node: ast.AST, prefix: str, *, values: bool = True) -> Iterator[tuple[str, ast.AST]]:
    """What stands under a name: functions, classes, and the values that a module or a class gives a name."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield prefix + name, child
                yield from _definitions(child, f"{prefix}{name}.", values=isinstance(child, ast.ClassDef))
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) if values:
                yield prefix + name, child
            case ast.stmt():
                yield from _definitions(child, prefix, values=values)


def _expressions(node: ast.AST, host: ast.JoinedStr | None = None) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Every expression but docstrings, and what has to be written again to change it: itself, or its f-string."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        inside = isinstance(node, ast.JoinedStr)
        if isinstance(child, ast.expr) and not (inside and isinstance(child, ast.Constant | ast.FormattedValue)):
            yield child, host or child
        yield from _expressions(child, host or (child if isinstance(child, ast.JoinedStr) else None))


def _replaced(found: ast.expr, taken: ast.expr, put: ast.expr) -> Iterator[ast.expr]:
    """What stands in the place of an expression, once for each time that the code is in it."""
    if _is_text(taken) and _is_text(put) and _is_text(found):
        letters, part = _letters(found), _letters(taken)
        keys, wanted = [key for key, _ in letters], [key for key, _ in part]
        for i in range(len(keys) - len(wanted) + 1):
            if keys[i : i + len(wanted)] == wanted:
                yield _string([*letters[:i], *_letters(put), *letters[i + len(wanted) :]])
    elif ast.dump(found) == ast.dump(taken):
        yield put


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _letters(node: ast.AST) -> list[tuple[str, str | ast.expr]]:
    """The letters of a string, and what an f-string holds between them; each with a key to compare it by."""
    if isinstance(node, ast.Constant):
        return [(letter, letter) for letter in node.value]
    if isinstance(node, ast.JoinedStr):
        return [letter for part in node.values for letter in _letters(part)]
    assert isinstance(node, ast.expr)
    return [(ast.dump(node), node)]


def _string(letters: list[tuple[str, str | ast.expr]]) -> ast.expr:
    parts: list[ast.expr] = []
    for _, letter in letters:
        if isinstance(letter, ast.expr):
            parts.append(letter)
        elif parts and isinstance(parts[-1], ast.Constant):
            parts[-1] = ast.Constant(parts[-1].value + letter)
        else:
            parts.append(ast.Constant(letter))
    return parts[0] if len(parts) == 1 and isinstance(parts[0], ast.Constant) else ast.JoinedStr(parts)


def _with(host: ast.expr, found: ast.expr, made: ast.expr) -> ast.expr:
    """The host with another expression in the place of one of its own."""
    return copy.deepcopy(host, {id(found): made})


def _runs(node: ast.AST, wanted: list[str]) -> Iterator[list[ast.stmt]]:
    """Every run of statements that reads so."""
    for one in ast.walk(node):
        for _, body in ast.iter_fields(one):
            if not isinstance(body, list) or not body or not isinstance(body[0], ast.stmt):
                continue
            for i in range(len(body) - len(wanted) + 1):
                if [ast.dump(each) for each in body[i : i + len(wanted)]] == wanted:
                    yield body[i : i + len(wanted)]
