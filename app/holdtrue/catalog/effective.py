"""an invariant's own keys over its file's defaults"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from holdtrue.catalog.nodes import Mapping, Node, Scalar
from holdtrue.catalog.shapes import Fields

_EXCLUSIVE: Final = (("database", "databases"), ("interval", "schedule"))
_MERGED: Final = ("columns",)


@dataclass(frozen=True, slots=True)
class Effective:
    """What holds for one invariant. ``wrong`` are keys that are written but could not be read: said already."""

    fields: Fields
    values: dict[str, Any]
    written: dict[str, tuple[Scalar, Node]]
    defaulted: frozenset[str]

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ANN401  as many types as keys
        """The value, or ``default``."""
        return self.values.get(key, default)

    def has(self, key: str) -> bool:
        """Whether it is written, right or wrong."""
        return key in self.written

    def node(self, key: str) -> Node:
        """The node of the key's value, or the invariant's own if it is not written."""
        return self.written[key][1] if key in self.written else self.fields.node

    def entry(self, key: str, name: str) -> Node:
        """The node of one name inside a mapping, or of the mapping."""
        node = self.node(key)
        found = node.entries.get(name) if isinstance(node, Mapping) else None
        return found[0] if found else node


def effective(own: Fields, defaults: Fields | None) -> Effective:
    """Overlay: an own ``interval`` displaces a default ``schedule``, ``columns`` and ``policy`` are joined key by key."""
    if defaults is None:
        return Effective(own, dict(own.values), dict(own.written), frozenset())
    displaced = {name for group in _EXCLUSIVE if any(one in own.written for one in group) for name in group}
    values, written = dict(own.values), dict(own.written)
    defaulted = set()
    for key, node in defaults.written.items():
        if key in displaced or (key in own.written and key not in (*_MERGED, "policy")):
            continue
        if key not in own.written:
            written[key] = node
            defaulted.add(key)
            if key in defaults:
                values[key] = defaults.get(key)
        elif key in _MERGED and key in own and key in defaults:
            values[key] = {**defaults.get(key), **own.get(key)}
        elif key == "policy" and key in own and key in defaults:
            inner, outer = own.get(key), defaults.get(key)
            values[key] = Fields(inner.node, {**outer.values, **inner.values}, {**outer.written, **inner.written})
    return Effective(own, values, written, frozenset(defaulted))
