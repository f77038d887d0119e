"""The inference engines of a run at this moment: asked at the run's own addresses, else as the run recorded them.

An address is asked only where it must be the run's: what its configuration, its launcher or its job's log names, and a
loopback address only on the host on which the run's processes live. Each engine gets a second and a bounded answer, and
nobody is sent elsewhere. Old and new names of vLLM's metrics are read; several engines behind one page are told apart
by their label. Left out: rates, which take two looks; the run records them.
"""

import math
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from prl.rundir.metrics.names import RENAMED
from prl.rundir.untyped import as_object
from prl.watch.facts import ALIVE, GONE, UNKNOWN
from prl.watch.lines import EngineLine
from prl.watch.series import Recorded
from prl.watch.surroundings import Engine

if TYPE_CHECKING:
    from prl.rundir.prometheus import Sample

SECONDS = 1.0
"""An engine gets so long to answer."""
MAX_ENGINES = 8
"""Addresses asked. A run with more is judged by what it records."""
MAX_BYTES = 2 * 1024**2
"""Bytes read of one answer."""

_GRACE = 0.5
_BLOCK = 64 * 1024
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_ANY = ("", "0.0.0.0", "::")
_BACKEND = 100
"""Engines listen this far above the port that clients use."""
_NAMES = (
    "num_requests_running",
    "num_requests_waiting",
    "kv_cache_usage_perc",
    "num_preemptions_total",
    "generation_tokens_total",
)
_OLD_NAMES = {newer: older for older, newer in RENAMED}
_LABELS = ("engine", "engine_id")


@dataclass(frozen=True)
class Address:
    """Where an engine is."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        return self.host in _LOOPBACK

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/metrics"


@dataclass(frozen=True)
class _Answer:
    """What an address said: a page, or why there is none."""

    text: str | None
    problem: str | None = None
    refused: bool = False


def addresses(documents: Mapping[str, Any], ports: Mapping[str, int], job_values: Mapping[str, str]) -> list[Address]:
    """The engines' addresses. ``ports``: those of the launcher. ``job_values``: what a job of several nodes said."""
    named = [address for url in _words(job_values.get("ADMIN_URLS", "")) if (address := _address(url))]
    if named:
        return _distinct(named)
    inference = as_object(documents.get("inference"))
    server = as_object(inference.get("server"))
    host = server.get("host")
    host = "127.0.0.1" if not isinstance(host, str) or host in _ANY else host
    if type(ports.get("engine")) is int:
        return [Address(host, ports["engine"])]
    orchestrator = as_object(documents.get("orchestrator") or as_object(documents.get("rl")).get("orchestrator"))
    client = as_object(as_object(orchestrator.get("model")).get("client") or orchestrator.get("client"))
    admin = _addresses(client.get("admin_base_url"))
    if admin:
        return admin
    port = server.get("port")
    clients = _addresses(client.get("base_url")) or ([Address(host, port)] if type(port) is int else [])
    # Behind what clients use may be a router, whose engines have ports of their own.
    backend = inference.get("backend_port")
    behind = [Address(one.host, backend if type(backend) is int else one.port + _BACKEND) for one in clients]
    return [one for one in _distinct([*behind, *clients]) if 0 < one.port < 65536]


def scrape(targets: Iterable[Address], now: float) -> list[Engine]:
    """Ask the engines at once. Raises nothing; who does not answer is ``gone`` (refused) or ``unknown``."""
    wanted = list(targets)[:MAX_ENGINES]
    answers: dict[Address, _Answer] = {}

    def ask(address: Address) -> None:
        answers[address] = _ask(address)

    # Daemons, because an engine may send a byte a second for ever: nobody waits for it.
    threads = [threading.Thread(target=ask, args=[address], daemon=True) for address in wanted]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + SECONDS + _GRACE
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0.0))
    told = {address: answers.get(address, _Answer(None, f"no answer within {SECONDS:g} s")) for address in wanted}
    engines = [engine for address, answer in told.items() for engine in _engines(address, answer, now)]
    if engines:  # the other address of a pair was a router's, or nobody's
        return engines
    return [
        Engine(f"{one.host}:{one.port}", str(one), GONE if answer.refused else UNKNOWN, now, problem=answer.problem)
        for one, answer in told.items()
    ]


def recorded(engines: Mapping[str, Recorded], lines: Mapping[str, EngineLine], source: str) -> list[Engine]:
    """What the run wrote down of its engines last: rows of metrics, else vLLM's own lines."""
    found = [_engine(name, source, UNKNOWN, row.time, row.values) for name, row in sorted(engines.items())]
    return found or [_said(name, line) for name, line in sorted(lines.items())]


def _ask(address: Address) -> _Answer:
    """The metrics page at an address. A redirect is an answer like any other that is not 200."""
    import http.client

    deadline = time.monotonic() + SECONDS
    connection = http.client.HTTPConnection(address.host, address.port, timeout=SECONDS)
    try:
        connection.request("GET", "/metrics", headers={"Accept": "text/plain"})
        response = connection.getresponse()
        if response.status != http.client.OK:
            return _Answer(None, f"HTTP {response.status}")
        data = bytearray()
        while len(data) < MAX_BYTES and time.monotonic() < deadline and (block := response.read1(_BLOCK)):
            data += block
    except (OSError, ValueError, http.client.HTTPException) as error:
        words = getattr(error, "strerror", None) or " ".join(str(error).split())[:200] or type(error).__name__
        return _Answer(None, words, refused=isinstance(error, ConnectionRefusedError))
    finally:
        connection.close()
    return _Answer(data.decode(errors="replace"))


def _engines(address: Address, answer: _Answer, now: float) -> list[Engine]:
    """The engines of one page, none when it is not an engine's."""
    from prl.rundir.prometheus import parse_page

    by_label: dict[str, dict[str, float]] = {}
    for sample in parse_page(answer.text).samples if answer.text is not None else ():
        name = sample.name.removeprefix("vllm:")
        if name == sample.name or (name not in _NAMES and name not in _OLD_NAMES.values()):
            continue
        values = by_label.setdefault(_label(sample), {})
        values[name] = values.get(name, 0.0) + sample.value
    head = f"{address.host}:{address.port}"
    names = {label: f"{head} engine {label}" if len(by_label) > 1 else head for label in by_label}
    return [_engine(names[label], str(address), ALIVE, now, by_label[label]) for label in sorted(by_label)]


def _label(sample: "Sample") -> str:
    return next((sample.labels[name] for name in _LABELS if name in sample.labels), "0")


def _engine(name: str, source: str, state: str, as_of: float, values: Mapping[str, float]) -> Engine:
    return Engine(
        name=name,
        source=source,
        state=state,
        as_of=as_of,
        running=_value(values, "num_requests_running"),
        waiting=_value(values, "num_requests_waiting"),
        kv_usage=_value(values, "kv_cache_usage_perc"),
        preemptions=_value(values, "num_preemptions_total"),
        generated=_value(values, "generation_tokens_total"),
        generation_rate=_value(values, "generation_tokens_total:rate"),
    )


def _value(values: Mapping[str, float], name: str) -> float | None:
    """A finite value by its newer or its older name."""
    value = values.get(name, values.get(_OLD_NAMES.get(name, name)))
    return value if value is not None and math.isfinite(value) else None


def _said(name: str, line: EngineLine) -> Engine:
    said = {key: float(value) for key, value in line.values.items() if isinstance(value, int | float)}
    usage = said.get("kv")
    return Engine(
        name=name,
        source=line.file,
        state=UNKNOWN,
        as_of=line.time,
        running=_value(said, "run"),
        waiting=_value(said, "wait"),
        kv_usage=usage / 100 if usage is not None and math.isfinite(usage) else None,
        generation_rate=_value(said, "gt"),
    )


def _addresses(urls: object) -> list[Address]:
    listed = urls if isinstance(urls, list) else [urls]
    return _distinct(address for url in listed if (address := _address(url)) is not None)


def _address(url: object) -> Address | None:
    if not isinstance(url, str):
        return None
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme != "http" or not host or not port:
        return None
    return Address("127.0.0.1" if host in _ANY else host, port)


def _words(text: str) -> Iterator[str]:
    return (word for word in re.split(r"[\s,()\[\]\"']+", text) if word)


def _distinct(found: Iterable[Address]) -> list[Address]:
    return list(dict.fromkeys(found))
