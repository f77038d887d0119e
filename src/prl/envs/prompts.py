"""A renderer slot that remembers the prompts it rendered last.

The members of a group are dispatched together and open with the same prompt. verifiers renders it for each of them, on
a thread, because rendering a long conversation takes long; a prompt that is remembered costs neither.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar, cast

import orjson
from renderers import RenderedTokens
from verifiers.v1.clients.train import RendererSlot

REMEMBERED = 64
"""Prompts per renderer."""
LARGEST = 32 * 1024
"""Bytes of messages and tools as JSON, beyond which a prompt is not remembered: longer ones are seldom shared."""
LIFETIME = 60.0
"""Seconds. A template may put the date into a prompt."""

T = TypeVar("T")

_only_remembered: ContextVar[bool] = ContextVar("only_remembered", default=False)


class NotRememberedError(LookupError):
    """The prompt has to be rendered."""

    def __init__(self, key: bytes | None) -> None:
        super().__init__(key)
        self.key = key
        """Of the prompt; None for what is never remembered."""


@dataclass
class RememberingSlot(RendererSlot):
    """As RendererSlot, but what is remembered is answered at once, in the event loop."""

    def __post_init__(self) -> None:
        renderer: Any = self.renderer
        self._prompts: OrderedDict[bytes, tuple[float, RenderedTokens]] = OrderedDict()
        self._rendering: dict[bytes, asyncio.Event] = {}
        """By prompt: set when a thread has rendered it, or failed to."""
        self._render, self._bridge = renderer.render, renderer.bridge_to_next_turn
        renderer.render, renderer.bridge_to_next_turn = self._remembered, self._not_remembered

    async def run(self, fn: Callable[[], T]) -> T:
        while True:
            token = _only_remembered.set(True)
            try:
                return fn()
            except NotRememberedError as missing:
                key = missing.key
            finally:
                _only_remembered.reset(token)
            if key is None:
                return await self._on_thread(fn)
            if key not in self._rendering:
                break
            await self._rendering[key].wait()
        rendered = self._rendering[key] = asyncio.Event()
        try:
            return await self._on_thread(fn)
        finally:
            del self._rendering[key]
            rendered.set()

    async def _on_thread(self, fn: Callable[[], T]) -> T:
        result: T = await super().run(fn)
        return result

    def _remembered(self, messages: Any, **options: Any) -> RenderedTokens:
        """In place of ``renderer.render``. Raises NotRememberedError in the event loop."""
        key = _key(messages, options)
        now = time.monotonic()
        rendered_at, rendered = self._prompts.get(key or b"", (-LIFETIME, None))
        if rendered is not None and now - rendered_at < LIFETIME:
            return _copy(rendered)
        if _only_remembered.get():
            raise NotRememberedError(key)
        rendered = cast(RenderedTokens, self._render(messages, **options))
        if key is not None and rendered.multi_modal_data is None:
            self._prompts[key] = now, _copy(rendered)
            self._prompts.move_to_end(key)
            if len(self._prompts) > REMEMBERED:
                self._prompts.popitem(last=False)
        return rendered

    def _not_remembered(self, *args: Any, **options: Any) -> Any:
        """In place of ``renderer.bridge_to_next_turn``: each conversation goes on in its own way."""
        if _only_remembered.get():
            raise NotRememberedError(None)
        return self._bridge(*args, **options)


def _key(messages: Any, options: dict[str, Any]) -> bytes | None:
    """Equal for equal prompts. None for a prompt that is too large, or holds what JSON does not."""
    try:
        key = orjson.dumps((messages, options))
    except TypeError:
        return None
    return key if len(key) <= LARGEST else None


def _copy(rendered: RenderedTokens) -> RenderedTokens:
    """With lists of its own: who gets it may change them."""
    values = {field.name: getattr(rendered, field.name) for field in fields(rendered)}
    return replace(rendered, **{name: value.copy() for name, value in values.items() if isinstance(value, list)})
