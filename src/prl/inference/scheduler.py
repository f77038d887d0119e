"""Which request runs in which slot: first come, first served, with the running requests in a contiguous prefix.

Plain bookkeeping without tensors. When a request finishes, its slot is a hole; new requests fill holes first, and what
holes remain before a decode step are closed by moving the last requests down (:meth:`Scheduler.close_holes` says which
slots to copy).
"""

from collections import deque
from dataclasses import dataclass, field

from prl.inference.requests import Request


@dataclass
class Scheduler:
    """Waiting and running requests of an engine with ``num_slots`` slots."""

    num_slots: int
    waiting: deque[Request] = field(default_factory=deque)
    slots: list[Request | None] = field(default_factory=list)
    """By slot; None is a hole. Never longer than ``num_slots``."""

    @property
    def running(self) -> list[Request]:
        """The requests in slots, by slot."""
        return [request for request in self.slots if request is not None]

    def admit(self, max_tokens: int) -> list[Request]:
        """Give slots to waiting requests until slots or ``max_tokens`` prompt tokens are used up, but to one at least.

        A prompt that several of them share counts once.
        """
        holes = [slot for slot, request in enumerate(self.slots) if request is None]
        holes.reverse()
        admitted: list[Request] = []
        prompts: set[tuple[int, ...]] = set()
        tokens = 0
        while self.waiting and (holes or len(self.slots) < self.num_slots):
            prompt = tuple(self.waiting[0].prompt)
            cost = 0 if prompt in prompts else len(prompt)
            if admitted and tokens + cost > max_tokens:
                break
            prompts.add(prompt)
            tokens += cost
            request = self.waiting.popleft()
            if holes:
                request.slot = holes.pop()
                self.slots[request.slot] = request
            else:
                request.slot = len(self.slots)
                self.slots.append(request)
            admitted.append(request)
        return admitted

    def remove(self, request: Request) -> bool:
        """Forget a request that finished or was aborted. False when it is neither waiting nor running."""
        if request.slot >= 0:
            if self.slots[request.slot] is not request:
                return False
            self.slots[request.slot] = None
            request.slot = -1
            return True
        try:
            self.waiting.remove(request)
        except ValueError:
            return False
        return True

    def close_holes(self) -> tuple[list[int], list[int]]:
        """Make the running requests contiguous. Returns (sources, targets): the slots whose cache must be copied."""
        running = len(self.running)
        movers = [request for request in self.slots[running:] if request is not None]
        targets = [slot for slot in range(running) if self.slots[slot] is None]
        sources = [request.slot for request in movers]
        for request, target in zip(movers, targets, strict=True):
            self.slots[target] = request
            request.slot = target
        del self.slots[running:]
        return sources, targets
