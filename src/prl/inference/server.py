"""The inference server: one process with an event loop for HTTP, a thread for the engine, two listening ports.

The server lives as long as its engine. A crash of the engine's thread ends the process with status 1, so that nothing
that looks healthy is left behind.
"""

import asyncio
import logging
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch
from aiohttp import web

from prl.config.inference import InferenceConfig
from prl.inference.architecture import Architecture, UnsupportedModelError, read_architecture
from prl.inference.data_plane import DataPlane, ServedModel
from prl.inference.engine import Engine
from prl.inference.engine_plane import EnginePlane
from prl.inference.model import KVCache, Model
from prl.inference.protocol import Limits
from prl.inference.sockets import Address, PortError
from prl.inference.stats import INTERVAL, StatsReporter
from prl.inference.tokenizer import Tokenizer, TokenizerError
from prl.inference.weights import WeightError, load_weights
from prl.inference.wire import errors_as_json
from prl.rundir.logs.console import log_fatal, success
from prl.text.human import format_duration

logger = logging.getLogger(__name__)

DEFAULT_MAX_MODEL_LEN = 4096
BACKLOG = 4096
"""Connections that may wait to be accepted: a batch of rollouts arrives at once."""
MAX_BODY = 64 * 1024**2
"""Bytes of a request's body."""
SHUTDOWN_TIMEOUT = 0.2
"""Seconds that open connections get when the server stops: the run is being torn down, nobody waits for answers."""
ENGINE_STOP_TIMEOUT = 2.0
"""Seconds that the engine's thread gets to end its turn; a long prefill may take more and is left behind."""


@dataclass(frozen=True)
class LoadedModel:
    """What a model directory holds, ready to serve."""

    directory: Path
    arch: Architecture
    model: Model
    tokenizer: Tokenizer
    max_model_len: int


def run_server(config: InferenceConfig, data: Address, admin: Address) -> int:
    """Serve until SIGTERM or SIGINT (exit status 0) or a failure (1). Both sockets are bound already."""
    try:
        return asyncio.run(_serve(config, data, admin))
    except (UnsupportedModelError, TokenizerError, WeightError, PortError) as error:
        logger.error("%s", error)
    except Exception:
        log_fatal(logger, "run_server")
    return 1


async def _serve(config: InferenceConfig, data: Address, admin: Address) -> int:
    stop = _stop_on_signals()
    loaded = load_model(config)
    engine = Engine(
        loaded.model,
        KVCache(loaded.arch, config.engine.max_num_seqs, loaded.max_model_len),
        max_waiting=config.engine.max_waiting,
        seed=config.engine.seed,
        num_threads=config.engine.num_threads,
        gather_interval=config.engine.gather_interval,
    )
    served = ServedModel(
        names=served_names(config.model.name),
        tokenizer=loaded.tokenizer,
        limits=Limits(loaded.max_model_len, loaded.arch.vocab_size, loaded.arch.stop_token_ids),
    )
    data_plane = DataPlane(engine, served)
    engine_plane = EnginePlane(engine, loaded.arch, served.names[0], (config.output_dir, loaded.directory))
    runners = [_runner(data_plane.routes()), _runner(data_plane.routes() + engine_plane.routes())]
    engine.start()
    reporter = asyncio.create_task(_report(engine))
    try:
        for runner, address in zip(runners, (data, admin), strict=True):
            await _listen(runner, address)
        success(
            logger,
            "Inference server ready in %s (%s, engine %s)",
            format_duration(time.time() - psutil.Process().create_time()),
            data.url,
            admin.url,
        )
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait((stopping, engine.crashed), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
    finally:
        reporter.cancel()
        for runner in runners:
            await runner.cleanup()
    if engine.crashed.done():
        engine.crashed.result()
    engine.stop(ENGINE_STOP_TIMEOUT)
    return 0


def load_model(config: InferenceConfig) -> LoadedModel:
    """Read the model. Raises UnsupportedModelError, WeightError or TokenizerError, saying what to do."""
    torch.set_num_threads(config.engine.num_threads)
    directory = find_model(config.model.name)
    arch = read_architecture(directory)
    tokenizer = Tokenizer(directory)
    max_model_len = config.engine.max_model_len or min(arch.max_position_embeddings, DEFAULT_MAX_MODEL_LEN)
    if max_model_len > arch.max_position_embeddings:
        raise UnsupportedModelError(
            f"engine.max_model_len = {max_model_len}: the model reaches {arch.max_position_embeddings} tokens "
            "(max_position_embeddings)"
        )
    slots = config.engine.max_num_seqs
    cache_bytes = KVCache.num_bytes(arch, slots, max_model_len)
    if cache_bytes > psutil.virtual_memory().total:
        raise UnsupportedModelError(
            f"the KV cache of {slots} x {max_model_len} tokens takes {cache_bytes / 1e9:.1f} GB, more than this "
            "machine has. Lower engine.max_num_seqs or engine.max_model_len"
        )
    weights = load_weights(directory, arch)
    logger.info(
        "Loaded %s (%s, %.2fM parameters, %d slots of %d tokens, KV cache up to %.0f MB)",
        config.model.name,
        arch.family,
        weights.num_parameters / 1e6,
        slots,
        max_model_len,
        cache_bytes / 1e6,
    )
    return LoadedModel(directory, arch, Model(arch, weights, max_model_len), tokenizer, max_model_len)


def find_model(name: str) -> Path:
    """The directory of a model given as a path or as a name in the local Hugging Face cache."""
    directory = Path(name).expanduser()
    if directory.is_dir():
        return directory
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError) as error:
        raise UnsupportedModelError(
            f"model.name = {name!r}: no such directory, and no model of that name in the local Hugging Face cache"
        ) from error


def served_names(name: str) -> tuple[str, ...]:
    """What clients may call the model: its name as configured, and the last segment of it."""
    return tuple(dict.fromkeys((name, Path(name).name)))


def _runner(routes: list[web.RouteDef]) -> web.AppRunner:
    app = web.Application(middlewares=[errors_as_json], client_max_size=MAX_BODY)
    app.add_routes(routes)
    # Cancelling a handler when its client goes away is what aborts the request in the engine.
    return web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_TIMEOUT)


async def _listen(runner: web.AppRunner, address: Address) -> None:
    await runner.setup()
    address.listen(BACKLOG)
    await web.SockSite(runner, address.socket, backlog=BACKLOG).start()


def _stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()

    def on_signal(number: signal.Signals) -> None:
        logger.info("Stopping on %s", number.name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal, number)
    return stop


async def _report(engine: Engine) -> None:
    reporter = StatsReporter(engine.metrics, time.monotonic())
    while True:
        await asyncio.sleep(INTERVAL)
        line = reporter.line(engine.gauges, time.monotonic())
        if line is not None:
            logger.info("%s", line)
