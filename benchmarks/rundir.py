"""How fast a recorded run is read: lists, metrics, episodes, searches, memory, and how fast one is written.

    python benchmarks/rundir.py [--dir DIR] [--small] [--json FILE] [--only CASE ...] [--repeat 5]

Runs are generated below ``--dir`` (18 GB; kept, and used again) and read there with a warm page cache. Each case is a
process of its own with a cache directory of its own, so that what is called cold is; a case named ``... again`` finds
the cache that the one before left. Of what is measured the median of ``--repeat`` processes is told. Prints one table:
what, at which size, measured, target, whether it holds.
"""

import argparse
import importlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rundir_data import SMALL, Data, Sizes, prepare
from rundir_table import Found, print_table, rows
from rundir_write import measure as measure_writing

PAGE = 128
POINTS = 1000
OPENED = 40
"""Episodes opened after the first."""
CALLS = 5
"""Calls in one process, of which the median counts."""
RARE = "quizzical zebra"
"""Stands in no text, so everything is searched."""
OPEN: list[object] = []
"""What a process has opened: it keeps it, as a server does, so that memory counts."""


# ---- cases: each runs in a process of its own


def list_runs(data: Data) -> Found:
    from prl.rundir.discovery import discover

    cold = seconds(lambda: discover([data.runs]))
    return {"list.cold": cold * 1e3, "list.warm": calls(lambda _: discover([data.runs])) * 1e3}


def list_again(data: Data) -> Found:
    from prl.rundir.discovery import discover

    return {"list.again": seconds(lambda: discover([data.runs])) * 1e3}


def metrics_cold(data: Data) -> Found:
    from prl.rundir.metrics.store import MetricsStore

    store = MetricsStore(data.metrics)
    OPEN.append(store)
    names = overview()
    newest = seconds(lambda: store.newest(2000).many(names, points=POINTS))
    cold = seconds(lambda: (store.refresh(), store.many(names, points=POINTS)))
    # Each call asks for another range, as somebody does who zooms.
    warm = calls(lambda n: store.many(names, points=POINTS, start=n * 10))
    return {"metrics.newest": newest * 1e3, "metrics.cold": cold, "metrics.warm": warm * 1e3}


def metrics_again(data: Data) -> Found:
    from prl.rundir.metrics.store import MetricsStore

    def overview_of_all() -> MetricsStore:
        store = MetricsStore(data.metrics)
        OPEN.append(store)
        store.refresh()
        store.many(overview(), points=POINTS)
        return store

    start = time.perf_counter()
    store = overview_of_all()
    again = time.perf_counter() - start
    return {"metrics.again": again * 1e3, "metrics.tail": tail(data.metrics, store) * 1e3}


def tail(path: Path, store: Any) -> float:
    """Seconds from a row that was appended to having it. The file is as it was afterwards."""
    size = path.stat().st_size
    with path.open("rb") as file:
        row = file.readline()
    taken = []
    try:
        cursor = store.tail().cursor
        for _ in range(CALLS):
            with path.open("ab") as file:
                file.write(row)
            start = time.perf_counter()
            store.refresh()
            found = store.tail(cursor)
            taken.append(time.perf_counter() - start)
            cursor = found.cursor
            if len(found.rows) != 1:
                raise RuntimeError(f"{len(found.rows)} rows since the cursor instead of 1")
    finally:
        os.truncate(path, size)
    return median(taken)


def sparse_cold(data: Data) -> Found:
    return {"sparse.cold": read_sparse(data)}


def sparse_again(data: Data) -> Found:
    return {"sparse.again": read_sparse(data) * 1e3}


def read_sparse(data: Data) -> float:
    from prl.rundir.metrics.store import MetricsStore

    store = MetricsStore(data.sparse)
    OPEN.append(store)
    return seconds(lambda: (store.refresh(), store.many(overview(), points=POINTS)))


def pages(name: str, traces: Path) -> Found:
    from prl.rundir.episodes.filters import Filters
    from prl.rundir.episodes.table import EpisodeTable

    table = EpisodeTable(traces)
    OPEN.append(table)
    cold = seconds(table.refresh)
    by_time = calls(lambda n: table.page(offset=n * PAGE))
    by_reward = calls(lambda n: table.page(sort="reward", offset=n * PAGE))
    filtered = calls(lambda n: table.page(Filters(outcome="ok", reward_min=0.1 + n / 100, env="reverse-text")))
    return {
        f"{name}.cold": cold,
        f"{name}.time": by_time * 1e3,
        f"{name}.reward": by_reward * 1e3,
        f"{name}.filtered": filtered * 1e3,
    }


def pages_again(name: str, traces: Path) -> Found:
    from prl.rundir.episodes.table import EpisodeTable

    return {f"{name}.again": seconds(EpisodeTable(traces).refresh) * 1e3}


def open_episodes(data: Data) -> Found:
    from prl.rundir.annotations.locator import UpdateLocator
    from prl.rundir.episodes.detail import open_episode
    from prl.rundir.jsonl import decode

    traces = data.traces("episodes")
    lines = (traces / "stream.index.jsonl").read_bytes().splitlines()
    chosen = random.Random(0).sample(lines, min(OPENED + 1, len(lines)))
    locator = UpdateLocator(traces)
    OPEN.append(locator)

    def look(line: bytes) -> None:
        detail = open_episode(traces, decode(line)[0], locator=locator)
        for trace in detail.traces:
            trace.messages()

    first, *others = chosen
    return {
        "open.first": seconds(lambda: look(first)) * 1e3,
        "open.others": median(seconds(lambda line=line: look(line)) for line in others) * 1e3,  # type: ignore[misc]
    }


def evaluation_series(data: Data) -> Found:
    from prl.rundir.episodes.table import EpisodeTable

    table = EpisodeTable(data.traces("evaluation"))
    OPEN.append(table)
    table.refresh()
    return {"series.first": seconds(table.values) * 1e3}


def search_records(data: Data, name: str, run: str) -> Found:
    from prl.rundir.episodes.search import search_episodes
    from prl.rundir.search import Query
    from prl.synth.text import language

    traces = data.traces(run)
    first = seconds(lambda: search_episodes(traces, Query(language().words[700]), max_hits=20))
    start = time.perf_counter()
    scanned = to_the_end(lambda cursor: search_episodes(traces, Query(RARE), cursor=cursor))
    return {name: scanned / (time.perf_counter() - start) / 1e6, f"{name}.first": first * 1e3}


def search_log(data: Data) -> Found:
    from prl.rundir.logs.search import search_logs
    from prl.rundir.search import Query

    first = seconds(lambda: search_logs([data.log], Query("for a worker"), max_hits=20))
    start = time.perf_counter()
    scanned = to_the_end(lambda cursor: search_logs([data.log], Query(RARE), cursor=cursor))
    return {"log.all": scanned / (time.perf_counter() - start) / 1e6, "log.first": first * 1e3}


def everything(data: Data) -> Found:
    """All reading in one process that keeps what it opened, as a server does, and its memory at its highest."""
    with anonymous_memory() as peak:
        for name, case in CASES.items():
            if name != "memory" and not name.endswith(" again"):
                case.measure(data)
    return {"memory": peak[0] / 1e6}


@dataclass(frozen=True)
class Case:
    """What is measured in one process, and what the page cache is to hold then."""

    measure: Callable[[Data], Found]
    files: tuple[str, ...]
    """Patterns below the data's directory."""


_TRACES = "monitors/file/traces"
_ROWS = (f"episodes/{_TRACES}/*.jsonl", f"episodes/{_TRACES}/annotations/*.jsonl")
_MANY_ROWS = (f"million/{_TRACES}/*.jsonl",)

CASES: dict[str, Case] = {
    "list": Case(list_runs, ("runs/**/*",)),
    "list again": Case(list_again, ("runs/**/*",)),
    "metrics": Case(metrics_cold, ("metrics/*",)),
    "metrics again": Case(metrics_again, ("metrics/*",)),
    "sparse": Case(sparse_cold, ("sparse/*",)),
    "sparse again": Case(sparse_again, ("sparse/*",)),
    "page": Case(lambda data: pages("page", data.traces("episodes")), _ROWS),
    "page again": Case(lambda data: pages_again("page", data.traces("episodes")), _ROWS),
    "million": Case(lambda data: pages("million", data.traces("million")), _MANY_ROWS),
    "million again": Case(lambda data: pages_again("million", data.traces("million")), _MANY_ROWS),
    "open": Case(open_episodes, (f"episodes/{_TRACES}/**/*",)),
    "series": Case(evaluation_series, (f"evaluation/{_TRACES}/**/*",)),
    "search": Case(lambda data: search_records(data, "search.plain", "episodes"), (f"episodes/{_TRACES}/stream/*",)),
    "search sealed": Case(
        lambda data: search_records(data, "search.sealed", "sealed"), (f"sealed/{_TRACES}/stream/*",)
    ),
    "log": Case(search_log, ("log/*",)),
    "memory": Case(everything, ()),
}


# ---- measuring


def overview() -> list[tuple[str, str]]:
    from prl.synth.metrics import OVERVIEW_KEYS

    return [("orch", key) for key in OVERVIEW_KEYS]


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def calls(work: Callable[[int], object]) -> float:
    """Median seconds of some calls, each with another number."""
    return median(seconds(lambda n=n: work(n)) for n in range(CALLS))  # type: ignore[misc]


def to_the_end(search: Callable[[str | None], Any]) -> int:
    """Follow a search's cursors; the bytes that were searched."""
    page = search(None)
    while page.cursor is not None:
        page = search(page.cursor)
    return int(page.scanned_bytes)


@contextmanager
def anonymous_memory() -> Iterator[list[int]]:
    """The highest anonymous memory of this process in bytes, looked at a hundred times a second."""
    peak, ended = [0], threading.Event()

    def look() -> None:
        while not ended.wait(0.01):
            status = Path("/proc/self/status").read_text()
            peak[0] = max(peak[0], 1024 * int(status.partition("RssAnon:")[2].split()[0]))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


def run_case(name: str, data: Data, cache: Path) -> Found:
    """A case in a fresh process."""
    command = [sys.executable, __file__, "--dir", str(data.root), "--case", name]
    environment = os.environ | {"PRL_CACHE_DIR": str(cache)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the case {name!r} failed with exit status {done.returncode}, see above")
    found: Found = json.loads(done.stdout)
    return found


def run_cases(names: list[str], data: Data, repeat: int) -> Found:
    """All cases, ``repeat`` times; medians."""
    values: dict[str, list[float]] = {}
    for _ in range(repeat):
        cache = Path(tempfile.mkdtemp(prefix="rundir-cache-"))
        try:
            for name in names:
                if not name.endswith(" again"):
                    shutil.rmtree(cache, ignore_errors=True)
                print(f"measuring {name}", file=sys.stderr, flush=True)
                warm_up(data.root, CASES[name].files)
                for row, value in run_case(name, data, cache).items():
                    values.setdefault(row, []).append(value)
        finally:
            shutil.rmtree(cache, ignore_errors=True)
    return {row: median(found) for row, found in values.items()}


def import_libraries() -> None:
    """What is measured is reading, by a process that is up: not what importing costs."""
    for name in ("numpy", "orjson", "pyzstd"):
        importlib.import_module(name)


def warm_up(root: Path, patterns: Iterable[str]) -> None:
    """Have the page cache hold these files."""
    for path in (path for pattern in patterns for path in root.glob(pattern)):
        with suppress(OSError), path.open("rb") as file:
            while file.read(1 << 20):
                pass


def write(directory: Path, megabytes: int) -> Found:
    measured = measure_writing(directory, megabytes)
    return {
        "write.append": measured["append_encoded_mb_per_s"],
        "write.whole": measured["append_mb_per_s"],
        "write.seal": measured["seal_mb_per_s"],
        "write.slower": measured["slower_while_sealing"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()) / "rundirbench")
    parser.add_argument("--small", action="store_true", help="small data, once: whether everything runs")
    parser.add_argument("--json", type=Path, help="write the measured values to this file as well")
    parser.add_argument("--only", nargs="+", choices=[*CASES, "write"], help="these cases only")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case is not None:
        import_libraries()
        print(json.dumps(CASES[options.case].measure(Data(options.dir))))
        return
    sizes = SMALL if options.small else Sizes()
    data = prepare(options.dir / "small" if options.small else options.dir / "full", sizes)
    # What is measured again needs the first time.
    names = [name for name in CASES if options.only is None or {name, f"{name} again"} & set(options.only)]
    found = run_cases(names, data, 1 if options.small else options.repeat)
    if options.only is None or "write" in options.only:
        with tempfile.TemporaryDirectory(dir=options.dir) as directory:
            found |= write(Path(directory), sizes.written_megabytes)
    table = rows(sizes)
    print_table(found, table)
    if options.json is not None:
        told = [
            {"name": name, **vars(table[name]), "measured": value, "holds": table[name].holds(value)}
            for name, value in found.items()
        ]
        options.json.write_text(json.dumps({"schema_version": 1, "rows": told}, indent=2) + "\n")


if __name__ == "__main__":
    main()
