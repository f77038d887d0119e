"""The engine and admin plane: metrics, pausing, liveness and new weights.

It serves the data plane's routes as well, as an engine behind a router does. New weights are checked (manifest,
version, checksums, names, shapes) and laid out in memory on a thread of their own while the old ones go on sampling;
only then are they exchanged, between two decode steps. A directory that fails a check is answered 400 and changes
nothing.
"""

import asyncio
import logging
import time
from pathlib import Path

from aiohttp import web

from prl.inference.architecture import Architecture
from prl.inference.engine import Engine, PauseMode
from prl.inference.errors import ApiError
from prl.inference.metrics import CONTENT_TYPE, render
from prl.inference.weights import WeightError, Weights, load_weights
from prl.inference.wire import read_object, reply
from prl.rundir.broadcasts import WeightDirectoryError, verify_weights
from prl.text.human import format_duration

logger = logging.getLogger(__name__)

MODES: dict[object, PauseMode] = {"keep": "keep", "wait": "wait", "abort": "abort"}
LIVENESS_TIMEOUT = 30.0
"""Seconds the engine has to run a trivial call."""


class EnginePlane:
    """Handlers that read and steer one engine."""

    def __init__(self, engine: Engine, arch: Architecture, model_name: str, weight_roots: tuple[Path, ...]) -> None:
        self._engine = engine
        self._arch = arch
        self._model_name = model_name
        self._roots = tuple(root.resolve() for root in weight_roots)
        self._updating = asyncio.Lock()

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/metrics", self.metrics),
            web.get("/liveness", self.liveness),
            web.get("/is_paused", self.is_paused),
            web.post("/pause", self.pause),
            web.post("/resume", self.resume),
            web.post("/update_weights", self.update_weights),
        ]

    async def metrics(self, _: web.Request) -> web.Response:
        page = render(self._engine.metrics, self._engine.gauges, self._model_name)
        return web.Response(body=page.encode(), headers={"Content-Type": CONTENT_TYPE})

    async def liveness(self, _: web.Request) -> web.Response:
        """200 when the engine's thread answers, else 503."""
        try:
            await asyncio.wait_for(self._engine.call(lambda: None), LIVENESS_TIMEOUT)
        except TimeoutError:
            raise ApiError(503, f"the engine did not answer within {LIVENESS_TIMEOUT:.0f}s") from None
        return reply({"status": "alive"})

    async def is_paused(self, _: web.Request) -> web.Response:
        return reply({"is_paused": self._engine.paused})

    async def pause(self, request: web.Request) -> web.Response:
        """``mode`` (query or body): keep (default), wait or abort; see :meth:`Engine.pause`."""
        body = await read_object(request)
        wanted = request.query.get("mode") or body.get("mode") or "keep"
        mode = MODES.get(wanted)
        if mode is None:
            raise ApiError(400, f"mode = {wanted!r}: must be one of {', '.join(map(str, MODES))}", "mode")
        await self._engine.pause(mode)
        logger.info("Paused generation (mode %s, %d running)", mode, self._engine.gauges.running)
        return reply({"status": "paused"})

    async def resume(self, _: web.Request) -> web.Response:
        await self._engine.resume()
        logger.info("Resumed generation with v%d", self._engine.version)
        return reply({"status": "resumed"})

    async def update_weights(self, request: web.Request) -> web.Response:
        """``{"weight_dir": str, "version": int}``: sample with these weights from the next token on."""
        body = await read_object(request)
        directory, version = self._parse_update(body.get("weight_dir"), body.get("version"))
        async with self._updating:
            start = time.monotonic()
            try:
                weights = await asyncio.to_thread(_stage, directory, version, self._arch)
            except (WeightDirectoryError, WeightError) as error:
                logger.warning("Refused weights for v%d, going on with v%d: %s", version, self._engine.version, error)
                raise ApiError(400, str(error), "weight_dir") from error
            staged = time.monotonic()
            await self._engine.swap_weights(weights, version)
            swapped = time.monotonic()
        logger.info(
            "Updated weights to v%d from %s (read and checked in %s, swapped in %s)",
            version,
            directory,
            format_duration(staged - start),
            format_duration(swapped - staged),
        )
        return reply({"version": version})

    def _parse_update(self, weight_dir: object, version: object) -> tuple[Path, int]:
        if not isinstance(weight_dir, str) or not weight_dir:
            raise ApiError(400, "weight_dir: must be the path of a directory", "weight_dir")
        if not isinstance(version, int) or isinstance(version, bool) or version < 0:
            raise ApiError(400, f"version = {version!r}: must be a whole number of at least 0", "version")
        directory = Path(weight_dir).resolve()
        if not any(directory.is_relative_to(root) for root in self._roots):
            allowed = " or ".join(map(str, self._roots))
            raise ApiError(400, f"weight_dir = {directory}: weights are taken from below {allowed} only", "weight_dir")
        return directory, version


def _stage(directory: Path, version: int, arch: Architecture) -> Weights:
    verify_weights(directory, version)
    return load_weights(directory, arch)
