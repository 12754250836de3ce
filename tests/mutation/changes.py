"""Every small mistake that could be made in a source text: one operator, constant, call or statement at a time.

A change replaces one stretch of the text. Docstrings, annotations, decorators and the words of errors stay as they are:
changing them changes no behaviour that a test should know.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
}
_TWINS = (("min", "max"), ("floor", "ceil"), ("round_up", "round_down"), ("any", "all"), ("minimum", "maximum"))
_CALLED = {a: b for pair in _TWINS for a, b in (pair, pair[::-1])}


@dataclass(frozen=True, slots=True)
class Change:
    """One stretch of a text, and what stands there instead."""

    kind: str
    line: int
    start: int
    end: int
    after: str

    def applied(self, text: str) -> str:
        """The text with the change in it."""
        return text[: self.start] + self.after + text[self.end :]

    def makes_another_program(self, text: str) -> bool:
        """Whether the changed text can be read, and means something else."""
        try:
            return ast.dump(ast.parse(self.applied(text))) != _dumped(text)
        except (SyntaxError, ValueError):
            return False


@functools.cache
def _dumped(text: str) -> str:
    return ast.dump(ast.parse(text))


@functools.cache
def changes(text: str) -> tuple[Change, ...]:
    """All changes of a text, in its order."""
    place = positions(text)
    found = {}
    for node in _living(ast.parse(text)):
        for kind, old, new in _mistakes(node):
            start, end = place(old.lineno, old.col_offset), place(old.end_lineno or 0, old.end_col_offset or 0)
            after = new if isinstance(new, str) else f"({ast.unparse(new)})"
            found.setdefault((start, end, after), Change(kind, old.lineno, start, end, after))
    return tuple(found[key] for key in sorted(found))


def positions(text: str) -> Callable[[int, int], int]:
    """From a line and a column in bytes, as `ast` counts them, to a place in the text."""
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    return lambda line, column: starts[line - 1] + len(lines[line - 1].encode()[:column].decode())


def _living(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that decides what happens."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "exc", "msg", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.Import | ast.ImportFrom | ast.JoinedStr) or _is_words(child) or _is_typing(child):
                continue
            if isinstance(child, ast.AST):
                yield from _living(child)


def _is_words(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_typing(node: object) -> bool:
    """Names of types, public names, and what only a type checker reads."""
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name == "__all__" or (name[:1].isupper() and not name.isupper() and not isinstance(value, ast.Call))
        case _:
            return False


def _mistakes(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, ast.expr | str]]:
    """A kind, what is replaced, and by what."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            for other in _COMPARED[type(op)]:
                yield "comparison", node, ast.Compare(left, [other()], [right])
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _COMPUTED:
            yield "arithmetic", node, ast.BinOp(left, _COMPUTED[type(op)](), right)
        case ast.BoolOp(op=op, values=values):
            yield "and or", node, ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield "dropped sign", node, operand
        case ast.Constant(value=bool() as value):
            yield "constant", node, repr(not value)
        case ast.Constant(value=int() as value):
            yield "constant", node, repr(value + 1)
            yield "constant", node, f"({value - 1})"
        case ast.Constant(value=float() as value):
            yield "constant", node, repr(value * 2)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield "branches", node, ast.IfExp(test, orelse, body)
        case ast.Call():
            yield from _calls(node)
        case ast.comprehension(ifs=[test]):
            yield "filter", test, "True"
        case ast.stmt():
            yield from _statements(node)


def _calls(node: ast.Call) -> Iterator[tuple[str, ast.expr, ast.expr]]:
    match node.func:
        case ast.Name(id=name) if name in _CALLED:
            yield "twin", node.func, ast.Name(_CALLED[name])
        case ast.Attribute(value=value, attr=name) if name in _CALLED:
            yield "twin", node.func, ast.Attribute(value, _CALLED[name])
    starred = any(isinstance(arg, ast.Starred) for arg in node.args[:2])
    if len(node.args) >= 2 and not starred and not _is_symmetric(node.func):
        first, second, *rest = node.args
        yield "arguments", node, ast.Call(node.func, [second, first, *rest], node.keywords)
    for i, keyword in enumerate(node.keywords):
        if keyword.arg is not None:
            yield "keyword", node, ast.Call(node.func, node.args, node.keywords[:i] + node.keywords[i + 1 :])


def _is_symmetric(function: ast.expr) -> bool:
    return isinstance(function, ast.Name) and function.id in ("min", "max", "isinstance")


def _statements(node: ast.stmt) -> Iterator[tuple[str, ast.expr | ast.stmt, ast.expr | str]]:
    match node:
        case ast.Expr() | ast.AugAssign() | ast.Raise() | ast.Delete():
            yield "dropped", node, "pass"
        case ast.If(test=test, body=[ast.Raise() | ast.Return() | ast.Continue() | ast.Break()], orelse=[]):
            yield "dropped", test, "False"
        case ast.If(test=test) | ast.While(test=test):
            yield "condition", test, ast.UnaryOp(ast.Not(), test)
        case ast.Break():
            yield "loop", node, "continue"
        case ast.Continue():
            yield "loop", node, "break"
        case ast.Return(value=ast.BinOp(left=left, right=right) as value):
            yield "operand", value, left
            yield "operand", value, right
        case ast.Return(value=ast.Call(args=[arg], keywords=[]) as value) if not isinstance(arg, ast.Starred):
            yield "operand", value, arg
        case ast.Return(value=ast.BoolOp(values=[first, *_]) as value):
            yield "operand", value, first
