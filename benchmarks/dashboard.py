"""How fast the dashboard is: its server alone, then the pages in Chromium.

    python benchmarks/dashboard.py [--dir DIR] [--only server|browser|load ...] [--repeat 7] [--json FILE]

Runs are generated below ``--dir`` (3 GB; kept, and used again): 50,000 episodes with 524 MB of metrics and 200 MB of
logs, 2,000 episodes, episodes of 2,000 and of 100,000 tokens, and 1,000 light runs. Each group of cases has a server
process of its own; "cold" begins with an empty cache directory, "warm" with one that an earlier server left. Of calls
the median of ``--repeat`` is told, each asking something that no other asked before, so that no kept answer serves.
Prints one table: what, measured, target, whether it holds.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from dashboard_browser import BROWSER, LOAD
from dashboard_data import Data, prepare
from dashboard_server import START_SECONDS, Case, Server, server


def start(data: Data, cache: Path, repeat: int) -> Iterator[Case]:
    starts, sizes = [], []
    for _ in range(repeat):
        with server(data.small, cache, find=False) as running:
            starts.append(running.started)
            sizes.append(running.megabytes)
            health = running.calls(repeat * 3, lambda _: running.ask("/api/health"))
    yield Case("start to first answer", median(starts) * 1e3, "ms", 500)
    yield Case("memory at start", median(sizes), "MB", 80)
    yield Case("/api/health", health, "ms", 1)


def list_of_runs(data: Data, cache: Path, repeat: int) -> Iterator[Case]:
    with server(data.many, cache, find=False) as running:
        yield Case("/api/runs, 1,000 runs, first answer, cold", running.ask("/api/runs")[0] * 1e3, "ms", 200)
        deadline = time.monotonic() + START_SECONDS
        while running.ask("/api/v1/runs")[2]["scanning"] and time.monotonic() < deadline:
            time.sleep(0.05)
        yield Case("/api/runs, 1,000 runs, warm", running.calls(repeat, lambda _: running.ask("/api/runs")), "ms", 200)
        taken, size, _ = running.ask("/api/v1/runs")
        yield Case("list of 1,000 runs", taken * 1e3, "ms")
        yield Case("list of 1,000 runs, bytes", size / 1e3, "kB")


def overview(data: Data, cache: Path, repeat: int) -> Iterator[Case]:
    with server(data.big, cache) as running:
        begun = time.perf_counter()
        taken, _, answer = running.of_run("overview", points=200)
        yield Case("overview of the big run, first answer, cold", taken * 1e3, "ms", 300)
        while answer["partial"] and time.perf_counter() - begun < START_SECONDS:
            time.sleep(0.02)
            _, size, answer = running.of_run("overview", points=200)
        yield Case("overview of the big run, complete, cold", (time.perf_counter() - begun) * 1e3, "ms", 3000)
        yield Case("overview, bytes of the answer", size / 1e3, "kB", 300)
    with server(data.big, cache) as running:
        begun = time.perf_counter()
        while running.of_run("overview", points=200)[2]["partial"] and time.perf_counter() - begun < START_SECONDS:
            time.sleep(0.02)
        yield Case("overview of the big run, complete, warm", (time.perf_counter() - begun) * 1e3, "ms", 1000)
        again = running.calls(repeat, lambda n: running.of_run("overview", points=201 + n))
        yield Case("overview again, other resolution", again, "ms")
        yield Case("pulse", running.calls(repeat, lambda _: running.ask("/api/v1/pulse", run=running.run)), "ms", 1)


def _page(running: Server, number: int, **query: Any) -> tuple[float, int, Any]:
    """A page that nobody asked for before."""
    return running.of_run("episodes", offset=16 * (number + 1), **query)


def episodes(data: Data, cache: Path, repeat: int) -> Iterator[Case]:
    sorts = ("arrival", "reward", "duration", "output_tokens", "turns", "advantage")
    filters: tuple[dict[str, Any], ...] = (
        {"env": "reverse-text"},
        {"kind": "eval"},
        {"outcome": "error"},
        {"reward": "0.2..0.8"},
        {"step": "100..200"},
    )
    with server(data.big, cache) as running:
        yield Case("episodes, first page, cold", running.of_run("episodes")[0] * 1e3, "ms")
        for sort in sorts:  # the first use of an order makes it
            running.of_run("episodes", sort=sort)
        pages = [running.calls(repeat, partial(_page, running, sort=sort)) for sort in sorts]
        yield Case("episodes, any sort (the slowest)", max(pages), "ms", 15)
        pages = [running.calls(repeat, partial(_page, running, sort="reward", **one)) for one in filters]
        yield Case("episodes, any filter (the slowest)", max(pages), "ms", 15)
        facets = running.calls(repeat, lambda n: running.of_run("episodes/facets", reward=f"..0.{n + 1}"))
        yield Case("facets", facets, "ms")
        yield Case("memory with the big run open", running.megabytes, "MB")


def one_episode(data: Data, cache: Path, repeat: int) -> Iterator[Case]:
    with server(data.tokens, cache) as running:
        rows = sorted(running.of_run("episodes")[2]["rows"], key=lambda row: abs(row["output_tokens"] - 2000))
        running.of_run(f"episodes/{rows[-1]['id']}")  # the tokenizer is read once

        def opened(number: int) -> tuple[float, int, Any]:
            row = rows[number % 5]
            detail, size, _ = running.of_run(f"episodes/{row['id']}")
            tokens, more, values = running.of_run(f"episodes/{row['id']}/tokens", trace=0, branch=0)
            return detail + tokens, size + more, values

        yield Case("episode with overlays, 2,000 tokens", running.calls(min(repeat, 5), opened), "ms", 25)


def logs(data: Data, cache: Path, repeat: int) -> Iterator[Case]:
    with server(data.big, cache) as running:
        time.sleep(2.0)  # a server that somebody has open, past what it loads in its first second
        yield Case("logs, 200 MB, open", running.of_run("logs")[0] * 1e3, "ms", 150)
        rail = running.of_run("logs/rail")[2]
        span = rail["end"] - rail["start"]
        jump = running.calls(repeat, lambda n: running.of_run("logs", at=rail["start"] + span * (n + 1) / (repeat + 1)))
        yield Case("logs, jump to a time", jump, "ms", 150)

        def search(number: int) -> tuple[float, int, Any]:
            taken, cursor, answer = 0.0, None, dict[str, Any]()
            while not answer.get("done"):
                query = {"q": f"quizzical zebra {number}", **({"cursor": cursor} if cursor else {})}
                seconds, _, answer = running.of_run("logs/search", **query)
                taken, cursor = taken + seconds, answer["cursor"]
            return taken, 0, answer

        yield Case("logs, search the whole", running.calls(repeat, search), "ms", 600)


SERVER = (start, list_of_runs, overview, episodes, one_episode, logs)


def measure(data: Data, parts: list[str], repeat: int, say: Callable[[str], None]) -> list[Case]:
    """All figures of the parts asked for."""
    groups = {"server": SERVER, "browser": BROWSER, "load": LOAD}
    found: list[Case] = []
    for part in parts:
        for group in groups[part]:
            say(f"{part}: {group.__name__.replace('_', ' ')}")
            with tempfile.TemporaryDirectory() as cache:
                for case in group(data, Path(cache), repeat):
                    found.append(case)
                    say(f"  {case.name}: {case.value:.3g} {case.unit}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, default=Path("build/dashboard"))
    parser.add_argument("--only", choices=("server", "browser", "load"), action="append")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    console = Console(stderr=True)
    data = prepare(arguments.dir, console.print)
    cases = measure(data, arguments.only or ["server", "browser", "load"], arguments.repeat, console.print)
    table = Table("what", "measured", "target", "holds")
    for case in cases:
        target = "" if case.target is None else f"{case.target:g} {case.unit}"
        holds = {None: "", True: "yes", False: "no"}[case.holds]
        table.add_row(case.name, f"{case.value:.3g} {case.unit}", target, holds)
    Console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps([case.__dict__ for case in cases], indent=2))


if __name__ == "__main__":
    main()
