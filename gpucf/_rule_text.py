"""Rules between columns as a person writes them: read into small nested tuples, and evaluated.

A rule is a condition, or ``if condition then condition``. Conditions are comparisons of sums of columns and numbers,
memberships (``job in {clerk, 'self-employed'}``), and moves (``degree changes``, ``age rises``, ``debt falls``), joined
by ``and``, ``or``, ``not``. Python's own parser reads the text; what is not listed here is refused.

Numbers are float64, and computed in the order in which they are written, as Python does: the rule means the same in
the caller's own check. Evaluation is by intervals, which are sound because each rounded operation is monotone in each
of its terms; on intervals of one number they are that number.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpucf._errors import OptionError

Node = tuple[Any, ...]
CHANGES, RISES, FALLS = "changes", "rises", "falls"
# A name before one of these words; what stands in quotes is passed over.
_MOVE = re.compile(rf"'[^']*'|\"[^\"]*\"|\b(?!(?:not|and|or|in|is|if)\b)([^\W\d]\w*)\s+({CHANGES}|{RISES}|{FALLS})\b")
_TOKEN = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"|[<>=!]=|=|[^`'\"<>=!]+|.", re.DOTALL)
_COMPARE: dict[type, str] = {
    ast.LtE: "<=", ast.Lt: "<", ast.GtE: ">=", ast.Gt: ">", ast.Eq: "=", ast.NotEq: "!=",
}  # fmt: skip
_ARITHMETIC: dict[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_EXACT: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip


@dataclass(frozen=True)
class Variable:
    """A feature that a rule may name.

    Attributes
    ----------
    name : str
    columns : tuple of int
        Columns of the model; several for a one-hot group.
    labels : tuple of tuples or None
        For categories the names that each goes by, in the order of their codes; None for numbers.
    """

    name: str
    columns: tuple[int, ...]
    labels: tuple[tuple[Any, ...], ...] | None


@dataclass(frozen=True)
class Names:
    """What names in rules mean: ``members`` are the columns of one-hot groups, each by group and position."""

    variables: Mapping[str, Variable]
    members: Mapping[str, tuple[str, int]]


def read_rule(text: Any, names: Names) -> Node:
    """The condition that a rule states.

    Nodes are ("number", x), ("column", name), ("member", group, position), ("+", x, y) and so on, ("neg", x),
    ("<=", x, y) and so on, ("in", column, numbers or codes), ("moves", name, way), ("and", ...), ("or", ...),
    ("not", x).

    Raises
    ------
    OptionError
        If the text is no rule, or names what the model does not have.
    """
    if not isinstance(text, str):
        raise OptionError(f"rules has {text!r}; give text such as 'a <= b' or 'if a = 1 then b in {{2, 3}}'.")
    reader = _Reader(text, names)
    parts = re.fullmatch(r"\s*if\b(.*?)\bthen\b(.*)", text, re.DOTALL)
    if parts is None:
        return reader.condition(reader.parsed(text))
    premise, conclusion = (reader.condition(reader.parsed(part)) for part in parts.groups())
    return ("or", ("not", premise), conclusion)


class _Reader:
    def __init__(self, text: str, names: Names) -> None:
        self.text, self.names = text, names
        self.quoted: list[str] = []

    def refuse(self, why: str) -> OptionError:
        return OptionError(f"rule {self.text!r}: {why}")

    def shown(self, e: ast.expr) -> str:
        """An expression as the person wrote it, nearly."""
        text = re.sub(r"__move_(\w+?)\((\w+)\)", r"\2 \1", ast.unparse(e))
        return re.sub(r"__column_(\d+)", lambda m: f"`{self.quoted[int(m[1])]}`", text)

    def parsed(self, part: str) -> ast.expr:
        try:
            return ast.parse(self._as_python(part).strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self.refuse(
                "cannot be read; write comparisons of columns and numbers, such as 'a <= b', '2*a + b <= 10', "
                "'if a = 1 then b in {2, 3}', with backticks around column names that are no single word."
            ) from None

    def _as_python(self, part: str) -> str:
        out = []
        for token in _TOKEN.findall(part):
            if token[0] == "`":
                self.quoted.append(token[1:-1])
                token = f"__column_{len(self.quoted) - 1}"
            out.append("==" if token == "=" else token)
        return _MOVE.sub(lambda m: f"__move_{m[2]}({m[1]})" if m[1] else m[0], "".join(out))

    def condition(self, e: ast.expr) -> Node:
        if isinstance(e, ast.BoolOp):
            return ("and" if isinstance(e.op, ast.And) else "or", *map(self.condition, e.values))
        if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.Not):
            return ("not", self.condition(e.operand))
        if isinstance(e, ast.Call) and isinstance(e.func, ast.Name) and e.func.id.startswith("__move_"):
            return self._move(e.args[0], e.func.id.removeprefix("__move_"))
        if not isinstance(e, ast.Compare):
            raise self.refuse(f"{self.shown(e)!r} is no comparison, but one is needed there.")
        sides = [e.left, *e.comparators]
        parts = [self._comparison(a, op, b) for a, op, b in zip(sides, e.ops, sides[1:], strict=False)]
        return parts[0] if len(parts) == 1 else ("and", *parts)

    def _move(self, e: ast.expr, way: str) -> Node:
        name = self._name(e) if isinstance(e, ast.Name) else ""
        if name in self.names.members:
            group = self.names.members[name][0]
            raise self.refuse(f"{name!r} moves with its group; say '{group} {way}'.")
        if name not in self.names.variables:
            self._column(name)  # says which there are
        if way != CHANGES and self.names.variables[name].labels is not None:
            raise self.refuse(f"{name!r} holds categories, which have no order; say '{name} {CHANGES}'.")
        return ("moves", name, way)

    def _comparison(self, a: ast.expr, op: ast.cmpop, b: ast.expr) -> Node:
        if isinstance(op, ast.In | ast.NotIn):
            if not isinstance(b, ast.Set):
                raise self.refuse("write the values behind 'in' in braces, as in {1, 2}.")
            node = self._membership(a, b.elts)
            return node if isinstance(op, ast.In) else ("not", node)
        if type(op) not in _COMPARE:
            raise self.refuse("only <=, <, >=, >, =, != and in compare.")
        sign = _COMPARE[type(op)]
        for one, other in ((a, b), (b, a)):
            if self._categorical(one) is not None:
                if sign not in ("=", "!="):
                    raise self.refuse(f"{self.shown(one)!r} holds categories, which have no order; use =, != or in.")
                node = self._membership(one, [other])
                return node if sign == "=" else ("not", node)
        return (sign, self.number(a), self.number(b))

    def _membership(self, a: ast.expr, values: list[ast.expr]) -> Node:
        variable = self._categorical(a)
        if variable is None:
            numbers = [self.number(v) for v in values]
            if any(n[0] != "number" for n in numbers):
                raise self.refuse("the values behind 'in' must be numbers, or categories of a categorical column.")
            return ("in", self.number(a), tuple(n[1] for n in numbers))
        return ("in", ("column", variable.name), tuple(self._code(variable, v) for v in values))

    def _code(self, variable: Variable, e: ast.expr) -> float:
        label = self._name(e) if isinstance(e, ast.Name) else e.value if isinstance(e, ast.Constant) else None
        known = variable.labels or ()
        for same in (lambda a: type(a) is type(label) and a == label, lambda a: str(a) == str(label)):
            found = [k for k, labels in enumerate(known) if any(same(a) for a in labels)]
            if label is not None and len(found) == 1:
                return float(found[0])
        shown = ", ".join(repr(labels[0]) for labels in known[:8]) + (", ..." if len(known) > 8 else "")
        raise self.refuse(f"{self.shown(e)} is no category of {variable.name!r}, which has {shown}.")

    def _name(self, e: ast.Name) -> str:
        found = re.fullmatch(r"__column_(\d+)", e.id)
        return self.quoted[int(found[1])] if found and int(found[1]) < len(self.quoted) else e.id

    def _categorical(self, e: ast.expr) -> Variable | None:
        variable = self.names.variables.get(self._name(e)) if isinstance(e, ast.Name) else None
        return variable if variable is not None and variable.labels is not None else None

    def number(self, e: ast.expr) -> Node:
        """A sum of columns and numbers; what holds only numbers is computed at once."""
        if isinstance(e, ast.Constant):
            return ("number", self._constant(e.value))
        if isinstance(e, ast.Name):
            return self._column(self._name(e))
        if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.USub | ast.UAdd):
            inner = self.number(e.operand)
            if isinstance(e.op, ast.UAdd):
                return inner
            return ("number", -inner[1]) if inner[0] == "number" else ("neg", inner)
        if not isinstance(e, ast.BinOp) or type(e.op) not in _ARITHMETIC:
            raise self.refuse(f"{self.shown(e)!r} is neither a column, nor a number, nor made of them by + - * /.")
        sign, a, b = _ARITHMETIC[type(e.op)], self.number(e.left), self.number(e.right)
        if sign == "/" and (b[0] != "number" or b[1] == 0.0):
            raise self.refuse("divides by something that is no number other than 0.")
        if sign == "*" and "number" not in (a[0], b[0]):
            raise self.refuse("multiplies columns with each other; only linear rules are taken.")
        if a[0] == b[0] == "number":
            return ("number", self._constant(_EXACT[sign](a[1], b[1])))
        return (sign, a, b)

    def _constant(self, value: Any) -> float:
        real = isinstance(value, int | float) and not isinstance(value, str)
        try:
            number = float(value) if real else np.nan
        except OverflowError:
            number = np.nan
        if not np.isfinite(number) or number != value:
            raise self.refuse(f"{value!r} is no finite float64 number.")
        return number + 0.0

    def _column(self, name: str) -> Node:
        if name in self.names.members:
            return ("member", *self.names.members[name])
        variable = self.names.variables.get(name)
        if variable is None:
            known = [*self.names.variables, *self.names.members]
            raise self.refuse(
                f"{name!r} is no column or group of the model ({', '.join(map(repr, known[:8]))}"
                f"{', ...' if len(known) > 8 else ''})."
            )
        if variable.labels is not None:
            raise self.refuse(f"{name!r} holds categories; compare it with one of them by = or !=, or use 'in'.")
        return ("column", name)


def walk(node: Node) -> Iterator[Node]:
    """A node and all nodes within."""
    yield node
    for part in node[1:]:
        if isinstance(part, tuple) and part and isinstance(part[0], str):
            yield from walk(part)


def has_moves(node: Node) -> bool:
    """Whether a condition speaks of moves, not only of where they end."""
    return any(part[0] == "moves" for part in walk(node))


Interval = tuple[Any, Any]


def numbers(node: Node, env: Mapping[str, Interval]) -> Interval:
    """Least and largest value of an arithmetic node, for arrays of intervals (low, high) of each variable."""
    kind = node[0]
    if kind == "number":
        return node[1], node[1]
    if kind == "column":
        return env[node[1]]
    if kind == "member":
        active = np.asarray(env[node[1]][0] == node[2], np.float64)
        return active, active
    if kind == "neg":
        low, high = numbers(node[1], env)
        return -high, -low
    a, b = numbers(node[1], env), numbers(node[2], env)
    if kind == "+":
        return a[0] + b[0], a[1] + b[1]
    if kind == "-":
        return a[0] - b[1], a[1] - b[0]
    one, other = (a[0] * b[0], a[1] * b[1]) if kind == "*" else (a[0] / b[0], a[1] / b[1])  # one side is a number
    return np.minimum(one, other), np.maximum(one, other)


def truth(node: Node, env: Mapping[str, Interval]) -> tuple[Any, Any]:
    """Whether a condition surely holds, and whether it surely does not, anywhere in the intervals."""
    kind = node[0]
    if kind == "not":
        yes, no = truth(node[1], env)
        return no, yes
    if kind in ("and", "or"):
        yes, no = truth(node[1], env)
        for part in node[2:]:
            also_yes, also_no = truth(part, env)
            yes, no = (yes & also_yes, no | also_no) if kind == "and" else (yes | also_yes, no & also_no)
        return yes, no
    if kind == "in":
        x = numbers(node[1], env)
        found = [_compared("=", x, (v, v)) for v in node[2]]
        yes, no = found[0]
        for also_yes, also_no in found[1:]:
            yes, no = yes | also_yes, no & also_no
        return yes, no
    return _compared(kind, numbers(node[1], env), numbers(node[2], env))


def _compared(sign: str, x: Interval, y: Interval) -> tuple[Any, Any]:
    if sign in (">", ">="):
        return _compared("<" if sign == ">" else "<=", y, x)
    if sign == "!=":
        yes, no = _compared("=", x, y)
        return no, yes
    if sign == "=":
        return np.equal(x[1], y[0]) & np.equal(x[0], y[1]), np.less(x[1], y[0]) | np.less(y[1], x[0])
    if sign == "<=":
        return np.less_equal(x[1], y[0]), np.less(y[1], x[0])
    return np.less(x[1], y[0]), np.less_equal(y[1], x[0])
