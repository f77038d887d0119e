"""The browser tabs that show the pages now, and where an agent sends them.

A tab is there while it asks for the pulse. A command goes to the tabs that were there when it was given: one that is
opened later was not meant. Nothing of it outlives the server.
"""

import threading
import time
from dataclasses import dataclass
from typing import Any

HERE_SECONDS = 15.0
"""How long a tab counts as there after it asked. One in the background asks every ten."""
_MAX_TABS = 1000


@dataclass
class _Tab:
    seen: float
    joined: int
    """The last command when it came."""


class Tabs:
    """Who looks. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tabs: dict[str, _Tab] = {}
        self._seq = 0
        self._command: dict[str, Any] | None = None

    def seen(self, client: str) -> dict[str, Any] | None:
        """Note that a tab asked. The last command that was given to it, as ``{seq, command}``; None when none was."""
        now = time.monotonic()
        with self._lock:
            tab = self._tabs.get(client)
            if tab is None or now - tab.seen > HERE_SECONDS:
                self._forget(now)
                tab = self._tabs[client] = _Tab(now, self._seq)
            tab.seen = now
            return {"seq": self._seq, "command": self._command} if self._seq > tab.joined else None

    def here(self) -> int:
        """How many tabs are there."""
        now = time.monotonic()
        with self._lock:
            return sum(now - tab.seen <= HERE_SECONDS for tab in self._tabs.values())

    def send(self, command: dict[str, Any]) -> int:
        """Give a command to all tabs. Its number: they count up."""
        with self._lock:
            self._seq += 1
            self._command = command
            return self._seq

    def _forget(self, now: float) -> None:
        self._tabs = {name: tab for name, tab in self._tabs.items() if now - tab.seen <= HERE_SECONDS}
        while len(self._tabs) >= _MAX_TABS:
            del self._tabs[min(self._tabs, key=lambda name: self._tabs[name].seen)]
