"""The engine: one thread that batches continuously, and the asynchronous face that the HTTP server uses.

Each turn of the thread runs what was posted to it (new requests, aborts, weight swaps), admits and prefills waiting
requests, then decodes one token for every running request. Everything that changes the model or the running set
happens between two decode steps, on this thread, so nothing is locked but the inbox. Finished requests of a step go
back to the event loop in one call: a wake-up costs more than a request. A small batch costs almost as much CPU as a
larger one, so while several requests are in flight a new one waits a moment for others (``gather_interval``).

Preemption is left out: a slot reserves its whole length, so a running request never lacks memory.
"""

import asyncio
import concurrent.futures
import math
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from prl.inference.metrics import EngineGauges, EngineMetrics
from prl.inference.model import KVCache, Model
from prl.inference.prefill import PrefillBatch, plan_prefill
from prl.inference.requests import Completion, FinishReason, Request, SamplingParams
from prl.inference.sampler import Sampler
from prl.inference.scheduler import Scheduler
from prl.inference.weights import Weights

PREFILL_TOKENS = 4096
"""Prompt tokens computed between two decode steps: bounds how long running requests stand still."""
CROWD_MEMORY = 10
"""Gathering goes on for this many intervals after two requests were last in flight together."""
IDLE_TURN = 1.0
"""Seconds after which an idle engine turns anyway, for the health check."""
NON_FINITE = "the model gave a log-probability that is not finite: its weights are broken"

PauseMode = Literal["keep", "wait", "abort"]
T = TypeVar("T")


class EngineDeadError(RuntimeError):
    """The engine's thread has ended; nothing will be served any more."""


class QueueFullError(RuntimeError):
    """Too many requests are waiting already."""


@dataclass
class _Batch:
    """The running requests as tensors, kept over decode steps until the set changes."""

    requests: list[Request]
    tokens: Tensor
    positions: Tensor
    span: int
    sampler: Sampler


class Engine:
    """Serves one model. Made, started and stopped from a running event loop; its coroutines belong to that loop."""

    def __init__(
        self,
        model: Model,
        cache: KVCache,
        *,
        max_waiting: int,
        seed: int = 0,
        num_threads: int = 1,
        stall_after: float = 30.0,
        gather_interval: float = 0.0,
    ) -> None:
        self.model = model
        self.cache = cache
        self.metrics = EngineMetrics()
        self.version = 0
        self.crashed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Holds the exception that ended the thread, once it has."""
        self._loop = asyncio.get_running_loop()
        self._max_unfinished = cache.num_slots + max_waiting
        self._num_threads = num_threads
        self._stall_after = stall_after
        self._gather_interval = gather_interval
        self._crowded_at = -math.inf
        """When a request last arrived while another was in flight."""
        self._random = random.Random(seed)
        self._scheduler = Scheduler(cache.num_slots)
        self._batch: _Batch | None = None
        self._finished: list[tuple[Request, Completion]] = []
        self._admitting = self._stepping = True
        self._drain_waiters: list[concurrent.futures.Future[None]] = []
        self._in_flight: set[asyncio.Future[Completion]] = set()
        self._calls: set[asyncio.Future[Any]] = set()
        self._inbox: list[Callable[[], None]] = []
        self._wake = threading.Condition()
        self._stopping = False
        self._turned_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    # The event loop's side.

    @property
    def max_model_len(self) -> int:
        return self.cache.max_len

    @property
    def healthy(self) -> bool:
        """Whether the thread lives and has turned within ``stall_after`` seconds."""
        return self._thread.is_alive() and time.monotonic() - self._turned_at < self._stall_after

    @property
    def paused(self) -> bool:
        return not self._admitting

    @property
    def gauges(self) -> EngineGauges:
        running = sum(1 for request in self._scheduler.slots if request is not None)
        return EngineGauges(
            running=running,
            waiting=max(len(self._in_flight) - running, 0),
            paused=self.paused,
            num_slots=self.cache.num_slots,
            max_model_len=self.cache.max_len,
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """Ask the thread to end and wait for it. Returns whether it did."""
        self._stopping = True
        self._post(lambda: None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    async def generate(self, prompt: list[int], params: SamplingParams) -> Completion:
        """Sample one completion. Cancelling it aborts the request and frees its slot.

        The prompt must fit: its length plus ``params.max_tokens`` at most ``max_model_len``, its ids in the vocabulary.
        Raises QueueFullError, or EngineDeadError when the engine's thread has crashed or does so meanwhile.
        """
        if self.crashed.done():
            raise EngineDeadError(str(self.crashed.exception()))
        if len(self._in_flight) >= self._max_unfinished:
            self.metrics.rejected += 1
            raise QueueFullError(f"{len(self._in_flight)} requests are running or waiting already")
        seed = self._random.getrandbits(64) if params.seed is None else params.seed % 2**64
        future: asyncio.Future[Completion] = self._loop.create_future()
        now = time.monotonic()
        request = Request(prompt, params, seed, now, future, self._due(now))
        self._in_flight.add(future)
        try:
            self._post(lambda: self._scheduler.waiting.append(request))
            return await future
        except asyncio.CancelledError:
            self._post(lambda: self._finish(request, "abort", time.monotonic()))
            raise
        finally:
            self._in_flight.discard(future)

    def _due(self, now: float) -> float:
        """When a request that arrives now is to start. One that comes alone has nobody to wait for."""
        if self._in_flight:
            self._crowded_at = now
        crowded = now - self._crowded_at < CROWD_MEMORY * self._gather_interval
        return now + self._gather_interval if crowded else now

    async def call(self, function: Callable[[], T]) -> T:
        """Run ``function`` on the engine's thread between two steps and return its result."""

        def post(done: concurrent.futures.Future[T]) -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                done.set_result(function())
            except Exception as error:
                done.set_exception(error)

        return await self._await_call(post)

    async def swap_weights(self, weights: Weights, version: int) -> None:
        """Sample from the next token on with other weights; running requests keep their KV cache."""

        def swap() -> None:
            self.model.weights = weights
            self.version = version
            for request in self._scheduler.running:
                request.use_version(version)

        await self.call(swap)

    async def pause(self, mode: PauseMode) -> None:
        """Stand still: ``keep`` freezes running requests, ``wait`` lets them finish first, ``abort`` ends them all.

        New requests wait until :meth:`resume`. With ``wait`` this returns when nothing runs any more.
        """

        def post(done: concurrent.futures.Future[None]) -> None:
            if not done.set_running_or_notify_cancel():
                return
            self._admitting = False
            if mode == "abort":
                for request in [*self._scheduler.running, *self._scheduler.waiting]:
                    self._finish(request, "abort", time.monotonic())
            self._stepping = mode == "wait"
            if mode == "wait" and self._scheduler.running:
                self._drain_waiters.append(done)
            else:
                done.set_result(None)

        await self._await_call(post)

    async def resume(self) -> None:
        """Go on."""

        def go() -> None:
            self._admitting = self._stepping = True
            self._release_drain_waiters()

        await self.call(go)

    async def _await_call(self, post: Callable[[concurrent.futures.Future[T]], None]) -> T:
        if self.crashed.done():
            raise EngineDeadError(str(self.crashed.exception()))
        done: concurrent.futures.Future[T] = concurrent.futures.Future()
        future = asyncio.wrap_future(done)
        self._calls.add(future)
        try:
            self._post(lambda: post(done))
            return await future
        finally:
            self._calls.discard(future)

    def _post(self, message: Callable[[], None]) -> None:
        with self._wake:
            self._inbox.append(message)
            self._wake.notify()

    def _resolve(self, finished: Sequence[tuple[Request, Completion]]) -> None:
        for request, completion in finished:
            if not request.future.done():
                request.future.set_result(completion)

    def _declare_dead(self, error: BaseException) -> None:
        self.crashed.set_exception(error)
        futures: list[asyncio.Future[Any]] = [*self._in_flight, *self._calls]
        for future in futures:
            if not future.done():
                future.set_exception(EngineDeadError(f"{type(error).__name__}: {error}"))

    # The engine's thread.

    def _run(self) -> None:
        torch.set_num_threads(self._num_threads)
        try:
            with torch.inference_mode():
                while self._turn():
                    pass
        except BaseException as error:
            self._loop.call_soon_threadsafe(self._declare_dead, error)

    def _turn(self) -> bool:
        """One turn; False when the engine was asked to stop."""
        with self._wake:
            if not self._inbox and not self._runnable:
                self._wake.wait(IDLE_TURN)
            messages, self._inbox = self._inbox, []
        self._turned_at = time.monotonic()
        if self._stopping:
            return False
        for message in messages:
            message()
        if self._runnable:
            self._step()
        if self._finished:
            finished, self._finished = self._finished, []
            self._loop.call_soon_threadsafe(self._resolve, finished)
        return True

    @property
    def _runnable(self) -> bool:
        if not self._stepping:
            return False
        return bool(self._scheduler.slots) or (self._admitting and bool(self._scheduler.waiting))

    def _step(self) -> None:
        if not self._scheduler.slots and (pause := self._scheduler.waiting[0].due - time.monotonic()) > 0:
            # Asleep and not waiting for a message: each of the requests gathered meanwhile would be a wake-up.
            time.sleep(pause)
            return
        admitted = self._admit()
        if admitted:
            self._batch = None
            for batch in plan_prefill(admitted):
                self._prefill(batch)
        self._decode()
        if self._drain_waiters and not self._scheduler.running:
            self._release_drain_waiters()

    def _admit(self) -> list[Request]:
        """The requests that start now: all that wait, once the first of them is due or there is no slot for more."""
        waiting = self._scheduler.waiting
        if not self._admitting or not waiting:
            return []
        free = self.cache.num_slots - len(self._scheduler.running)
        if len(waiting) < free and waiting[0].due > time.monotonic():
            return []
        return self._scheduler.admit(PREFILL_TOKENS)

    def _release_drain_waiters(self) -> None:
        waiters, self._drain_waiters = self._drain_waiters, []
        for waiter in waiters:
            waiter.set_result(None)

    def _prefill(self, batch: PrefillBatch) -> None:
        requests = batch.requests
        for request in requests:
            request.use_version(self.version)
        rows = torch.tensor(batch.rows)
        logits = self.model.prefill(
            torch.tensor(batch.padded),
            torch.tensor([len(prompt) for prompt in batch.prompts]),
            rows,
            torch.tensor([request.slot for request in requests]),
            self.cache,
        )
        tokens, logprobs = Sampler(requests).sample(logits[rows])
        now = time.monotonic()
        prompt_tokens = sum(len(request.prompt) for request in requests)
        self.metrics.prompt_tokens += prompt_tokens
        self.metrics.prefix_queries += prompt_tokens
        self.metrics.prefix_hits += batch.shared_tokens
        for request in requests:
            self.metrics.first_token.observe(now - request.arrived_at)
        self._accept(requests, tokens, logprobs, now)

    def _decode(self) -> None:
        batch = self._batch or self._make_batch()
        if batch is None:
            return
        logits = self.model.decode(batch.tokens, batch.positions, batch.span, self.cache)
        batch.tokens, logprobs = batch.sampler.sample(logits)
        batch.positions += 1
        batch.span += 1
        now = time.monotonic()
        for last, number in Counter([request.last_token_at for request in batch.requests]).items():
            self.metrics.inter_token.observe(now - last, number)
        self._accept(batch.requests, batch.tokens, logprobs, now)

    def _make_batch(self) -> _Batch | None:
        sources, targets = self._scheduler.close_holes()
        requests = self._scheduler.running
        if not requests:
            return None
        lengths = [len(request.prompt) + len(request.tokens) for request in requests]
        if sources:
            self.cache.move(sources, targets, max(lengths))
        self._batch = _Batch(
            requests,
            torch.tensor([request.tokens[-1] for request in requests]),
            torch.tensor(lengths) - 1,
            max(lengths),
            Sampler(requests),
        )
        return self._batch

    def _accept(self, requests: Sequence[Request], tokens: Tensor, logprobs: Tensor, now: float) -> None:
        """Give every request its sampled token and finish those that are complete."""
        self.metrics.generation_tokens += len(requests)
        for request, token, logprob in zip(requests, tokens.tolist(), logprobs.tolist(), strict=True):
            request.last_token_at = now
            reason = request.append(token, logprob)
            if reason is not None:
                self._finish(request, reason, now)

    def _finish(self, request: Request, reason: FinishReason, now: float) -> None:
        """End a request wherever it is. One that has ended already is left alone."""
        slot = request.slot
        if not self._scheduler.remove(request):
            return
        if reason == "error":
            self.cache.clear(slot)
        self._batch = None
        self.metrics.finished[reason] += 1
        self.metrics.request.observe(now - request.arrived_at)
        self._finished.append((request, request.completion(reason, NON_FINITE if reason == "error" else None)))
