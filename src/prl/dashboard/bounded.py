"""Values that files hold, brought to a size that a page can take, with secrets masked.

A text keeps its beginning, a list and an object their first entries; what was cut says so. Half of a surrogate pair
and the like are left to the encoding. Left out: what a model saw and wrote, which is shown as it stands.
"""

from collections.abc import Mapping
from typing import Any

from prl.text.secrets import mask_secrets

MAX_TEXT = 20_000
"""Characters of one text."""
_ENTRIES = 1000
_DEPTH = 24
_BUDGET = 400_000
"""Characters of a whole tree, keys and entries counted as some."""
_ENTRY = 16


def bounded(value: Any, budget: int = _BUDGET) -> Any:
    """A tree of JSON values within bounds. What is left out leaves ``…`` in its place."""
    return _Bounded(budget).tree(value, 0)


def masked(text: str, limit: int = MAX_TEXT) -> str:
    """A text with secrets masked, at most ``limit`` characters of it."""
    # A secret that the cut would halve might not be known as one any more.
    shown = mask_secrets(text[: limit + 1000])
    return shown if len(shown) <= limit and len(text) <= limit else f"{shown[:limit]}…"


class _Bounded:
    def __init__(self, budget: int) -> None:
        self.left = budget

    def tree(self, value: Any, depth: int) -> Any:
        self.left -= _ENTRY
        if isinstance(value, str):
            shown = masked(value, max(min(MAX_TEXT, self.left), 0))
            self.left -= len(shown)
            return shown
        if isinstance(value, Mapping | list | tuple):
            if depth >= _DEPTH or self.left <= 0:
                return "…"
            return self._object(value, depth) if isinstance(value, Mapping) else self._list(value, depth)
        return value

    def _object(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for number, (key, entry) in enumerate(value.items()):
            if number >= _ENTRIES or self.left <= 0:
                kept["…"] = f"{len(value) - number} more"
                break
            name = str(key)[:_ENTRIES]
            self.left -= len(name)
            kept[name] = self._named(name, entry, depth)
        return kept

    def _named(self, name: str, entry: Any, depth: int) -> Any:
        """An entry, masked also where only its name tells that it is a secret."""
        if isinstance(entry, str):
            whole = f"{name}={entry[:MAX_TEXT]}"
            shown = mask_secrets(whole)
            entry = shown[len(name) + 1 :] if shown != whole else entry
        return self.tree(entry, depth + 1)

    def _list(self, value: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
        kept = []
        for number, entry in enumerate(value):
            if number >= _ENTRIES or self.left <= 0:
                kept.append(f"… {len(value) - number} more")
                break
            kept.append(self.tree(entry, depth + 1))
        return kept
