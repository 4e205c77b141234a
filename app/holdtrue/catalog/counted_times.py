"""which numbers of SQLite a text takes for times: by how much each grows with the clock

SQLite keeps moments as numbers that only a text tells from other numbers. What the text sets beside the clock must come out the
same whenever it is asked, if the rows move with the clock: each comparison is an equation between the rates of its columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from holdtrue.catalog.computing import projection_of, sources_of
from holdtrue.catalog.sql import parse
from holdtrue.model import Dialect

_CLOCK: Final = "the clock"
_DAY: Final = Fraction(1, 86_400)
_RATES: Final[Mapping[str, Fraction]] = {"unixepoch": Fraction(1), "%s": Fraction(1), "julianday": _DAY, "%j": _DAY}
_READERS: Final = frozenset({"unixepoch", "julianday", "strftime", "date", "time", "datetime"})
_NESTED: Final = 20

Terms = dict[str, Fraction]
"""A sum: by column (``jobs.started``) what it is multiplied with, and the clock's rate. Constants are left out."""


@dataclass(frozen=True, slots=True)
class CountedTimes:
    """By column, in lower case, the units that pass in a second; and those beside the clock of which it cannot be told."""

    rates: Mapping[str, Fraction] = field(default_factory=dict)
    unclear: tuple[str, ...] = ()


def counted_times(sql: str) -> CountedTimes:
    """The numbers that a text of SQLite takes for times; nothing where the parser cannot read it."""
    from sqlglot.errors import SqlglotError  # heavy, and not needed to import the catalog
    from sqlglot.optimizer.scope import traverse_scope

    tree = parse(sql, Dialect.SQLITE)
    if tree is None:
        return CountedTimes()
    try:
        scopes = list(traverse_scope(tree))
        reading = _Reading({id(scope.expression): scope for scope in scopes})
        for scope in scopes:
            reading.read(scope)
    except (SqlglotError, RecursionError):
        return CountedTimes()
    return reading.solved()


class _Opaque(Exception):
    """It is no sum of columns, constants and the clock."""


@dataclass
class _Reading:
    """What the scopes of a text say, and what follows from it."""

    scopes: Mapping[int, Any]
    equations: list[Terms] = field(default_factory=list)
    rates: dict[str, Fraction] = field(default_factory=dict)
    unclear: set[str] = field(default_factory=set)

    def read(self, scope: Any) -> None:  # noqa: ANN401  the parser's nodes
        """Take the equations of one scope."""
        from sqlglot import exp  # heavy, and not needed to import the catalog

        compared = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is)
        for node in scope.walk():
            if isinstance(node, compared):
                self._equal(node, scope, (node.this, node.expression))
            elif isinstance(node, exp.Between):
                self._equal(node, scope, (node.this, node.args["low"]))
                self._equal(node, scope, (node.this, node.args["high"]))
            elif isinstance(node, exp.Sub) and not node.find_ancestor(*compared, exp.Between):
                self._equal(node, scope, (node.this, node.expression))
            elif (call := _call(node)) is not None:
                self._read_as_moment(call[1], scope)

    def _equal(self, node: Any, scope: Any, sides: tuple[Any, Any]) -> None:  # noqa: ANN401
        try:
            terms = _added(self.sum_of(sides[0], scope), self.sum_of(sides[1], scope), Fraction(-1))
        except _Opaque:
            if any(_is_clock(one) for one in node.walk()):
                self.unclear.update(self._columns(node, scope))
            return
        if set(terms) - {_CLOCK}:
            self.equations.append(terms)

    def _read_as_moment(self, given: list[Any], scope: Any) -> None:  # noqa: ANN401
        """``datetime(started, 'unixepoch')``: a number there is a moment, by what the modifiers say of it."""
        from sqlglot import exp  # heavy, and not needed to import the catalog

        if not given or isinstance(given[0], exp.Literal):
            return
        modifiers = {one.name.lower() for one in given[1:] if isinstance(one, exp.Literal)}
        rate = Fraction(1) if "unixepoch" in modifiers else _DAY
        try:
            terms = self.sum_of(given[0], scope)
        except _Opaque:
            terms = {}
        if "auto" in modifiers or len(terms) != 1 or _CLOCK in terms:
            self.unclear.update(self._columns(given[0], scope))
        else:
            self.equations.append({**terms, _CLOCK: -rate})

    def sum_of(self, node: Any, scope: Any, depth: int = 0) -> Terms:  # noqa: ANN401
        """The node as a sum.

        Raises:
            _Opaque: it is none.
        """
        from sqlglot import exp  # heavy, and not needed to import the catalog

        if depth > _NESTED:
            raise _Opaque
        deeper = depth + 1
        if isinstance(node, (exp.Paren, exp.Cast, exp.Alias, exp.Round, exp.Max, exp.Min)) and not _more(node):
            return self.sum_of(node.this, scope, deeper)
        if isinstance(node, (exp.Literal, exp.Null, exp.Boolean)):
            return {}
        if isinstance(node, exp.Neg):
            return _scaled(self.sum_of(node.this, scope, deeper), Fraction(-1))
        if isinstance(node, (exp.Add, exp.Sub)):
            sign = Fraction(1 if isinstance(node, exp.Add) else -1)
            return _added(self.sum_of(node.this, scope, deeper), self.sum_of(node.expression, scope, deeper), sign)
        if isinstance(node, (exp.Mul, exp.Div)):
            return self._product(node, scope, deeper)
        if isinstance(node, (exp.Coalesce, exp.Greatest, exp.Least)):
            sums = [self.sum_of(one, scope, deeper) for one in (node.this, *node.expressions)]
            told = [one for one in sums if one]
            if len(told) > 1:
                raise _Opaque
            return told[0] if told else {}
        if isinstance(node, exp.Abs):
            self._equal(node, scope, (node.this, exp.Literal.number(0)))
            return {}
        if isinstance(node, exp.Column):
            return self._column(node, scope, deeper)
        if isinstance(node, exp.Subquery) and id(node.this) in self.scopes and len(node.this.selects) == 1:
            return self.sum_of(node.this.selects[0], self.scopes[id(node.this)], deeper)
        rate = _rate_of(node)
        if rate is None:
            raise _Opaque
        return {_CLOCK: rate} if rate else {}

    def _product(self, node: Any, scope: Any, depth: int) -> Terms:  # noqa: ANN401
        from sqlglot import exp  # heavy, and not needed to import the catalog

        left, right = node.this.unnest(), node.expression.unnest()
        factor = _number(right)
        if factor is None and isinstance(node, exp.Mul):
            left, factor = right, _number(left)
        if not factor:
            raise _Opaque
        return _scaled(self.sum_of(left, scope, depth), factor if isinstance(node, exp.Mul) else 1 / factor)

    def _column(self, column: Any, scope: Any, depth: int) -> Terms:  # noqa: ANN401
        from sqlglot import exp  # heavy, and not needed to import the catalog

        names: set[str] = set()
        for source in sources_of(column, scope):
            if isinstance(source, exp.Table):
                names.add(_named(source, column))
                continue
            inner = projection_of(column.name, source)
            if inner is None:
                raise _Opaque
            return self.sum_of(inner, source, depth)
        if len(names) != 1:
            raise _Opaque
        return {names.pop(): Fraction(1)}

    def _columns(self, node: Any, scope: Any, depth: int = 0) -> Iterator[str]:  # noqa: ANN401
        from sqlglot import exp  # heavy, and not needed to import the catalog

        for column in node.find_all(exp.Column) if depth <= _NESTED else ():
            for source in sources_of(column, scope):
                if isinstance(source, exp.Table):
                    yield _named(source, column)
                elif (inner := projection_of(column.name, source)) is not None:
                    yield from self._columns(inner, source, depth + 1)

    def solved(self) -> CountedTimes:
        """The rates that follow, one from the other; a column with two of them, or with none beside the clock, is unclear."""
        rates = self.rates
        moved = True
        while moved:
            moved = False
            for terms in self.equations:
                open_ = [name for name in terms if name != _CLOCK and name not in rates]
                known = terms.get(_CLOCK, Fraction(0)) + sum(
                    (terms[name] * rates[name] for name in terms if name in rates), Fraction(0)
                )
                timed = _CLOCK in terms or any(rates.get(name) for name in terms)
                if timed and len(open_) == 1:
                    rates[open_[0]] = -known / terms[open_[0]]
                    moved = True
        for terms in self.equations:
            left = terms.get(_CLOCK, Fraction(0))
            columns = [name for name in terms if name != _CLOCK]
            timed = _CLOCK in terms or any(rates.get(name) for name in columns)
            left += sum((terms[name] * rates.get(name, Fraction(0)) for name in columns), Fraction(0))
            # A comparison with a constant alone is one with a mark such as 0: it says nothing of a time.
            if timed and (
                any(name not in rates for name in columns) or (left and (len(columns) > 1 or _CLOCK in terms))
            ):
                self.unclear.update(columns)
        self.unclear.update(name for name, rate in rates.items() if rate < 0)
        return CountedTimes(
            {name: rate for name, rate in rates.items() if rate > 0 and name not in self.unclear},
            tuple(sorted(self.unclear)),
        )


def _named(table: Any, column: Any) -> str:  # noqa: ANN401  the parser's nodes
    return f"{table.name}.{column.name}".lower()


def _more(node: Any) -> bool:  # noqa: ANN401  the parser's nodes
    return bool(node.args.get("expressions"))


def _call(node: Any) -> tuple[str, list[Any]] | None:  # noqa: ANN401  the parser's nodes
    """The name of a function that reads moments, and its arguments from the moment on; a format is part of the name."""
    from sqlglot import exp  # heavy, and not needed to import the catalog

    if isinstance(node, exp.TimeToStr):
        moment = node.this.this if isinstance(node.this, exp.TsOrDsToTimestamp) else node.this
        return node.text("format").lower(), [moment]
    if isinstance(node, exp.Date):
        return "date", [one for one in (node.this, *node.expressions) if one is not None]
    if not isinstance(node, exp.Anonymous) or node.name.lower() not in _READERS:
        return None
    name, given = node.name.lower(), list(node.expressions)
    if name == "strftime":
        return (given[0].name.lower() if given else ""), given[1:]
    return name, given


def _rate_of(node: Any) -> Fraction | None:  # noqa: ANN401  the parser's nodes
    """By how much what a function gives grows in a second; 0 for a moment as text, None where it reads no moment."""
    from sqlglot import exp  # heavy, and not needed to import the catalog

    if isinstance(node, (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime)):
        return Fraction(0)
    call = _call(node)
    return None if call is None else _RATES.get(call[0], Fraction(0))


def _is_clock(node: Any) -> bool:  # noqa: ANN401  the parser's nodes
    return bool(_rate_of(node))


def _number(node: Any) -> Fraction | None:  # noqa: ANN401  the parser's nodes
    from sqlglot import exp  # heavy, and not needed to import the catalog

    if isinstance(node, (exp.Mul, exp.Div)):
        left, right = _number(node.this.unnest()), _number(node.expression.unnest())
        if left is None or not right:
            return None
        return left * right if isinstance(node, exp.Mul) else left / right
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    try:
        return Fraction(node.name)
    except (ValueError, ZeroDivisionError):
        return None


def _scaled(terms: Terms, factor: Fraction) -> Terms:
    return {name: value * factor for name, value in terms.items()}


def _added(left: Terms, right: Terms, sign: Fraction) -> Terms:
    names = dict.fromkeys([*left, *right])
    found = {name: left.get(name, Fraction(0)) + sign * right.get(name, Fraction(0)) for name in names}
    return {name: value for name, value in found.items() if value}
