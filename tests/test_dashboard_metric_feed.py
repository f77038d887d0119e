"""The metrics of an open run: at once from the end of a large file, then all of it, then what is new."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dashboard_metrics import START, add_rows, api, client_of, row, write_rows
from prl.dashboard import metric_feed
from prl.dashboard.metric_feed import MetricFeed
from prl.rundir.metrics.store import MetricsStore

ROWS = 3000


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(metric_feed, "FIRST_ROWS", 50)
    monkeypatch.setattr(metric_feed, "AT_ONCE", 4096)
    monkeypatch.setattr(metric_feed, "_SLICE", 65536)
    yield


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "demo", (row(step, START + step, loss__mean=step / 2) for step in range(1, ROWS + 1)))


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Holds the reading in the background until it is set."""
    opened = threading.Event()
    refresh = MetricsStore.refresh

    def held(store: MetricsStore, max_bytes: int | None = None) -> bool:
        if max_bytes == 65536:
            opened.wait(30)
        return refresh(store, max_bytes)

    monkeypatch.setattr(MetricsStore, "refresh", held)
    return opened


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def rows_of(feed: MetricFeed) -> tuple[int, bool]:
    with feed.read() as store:
        return store.rows, store.whole


def test_the_last_rows_stand_for_a_file_that_is_not_read_yet(run: Path, gate: threading.Event) -> None:
    feed = MetricFeed(run, 0.0)
    assert rows_of(feed) == (50, False)
    version = feed.version()
    assert feed.version() == version  # answers from the first rows stay until all are there
    with feed.read() as store:
        assert store.series("trainer", "loss/mean").x[-1] == ROWS
    gate.set()
    eventually(lambda: rows_of(feed) == (ROWS, True))
    assert feed.version() != version
    feed.close()


def test_what_is_written_later_is_read_on(run: Path) -> None:
    feed = MetricFeed(run, 0.0)
    eventually(lambda: rows_of(feed) == (ROWS, True))
    add_rows(run, [row(ROWS + 1, START, loss__mean=0.0)])
    eventually(lambda: rows_of(feed) == (ROWS + 1, True))
    # Much at once: what is known stays in sight while the rest is read.
    add_rows(run, (row(ROWS + 2 + step, START, loss__mean=0.0) for step in range(500)))
    assert rows_of(feed)[1]
    eventually(lambda: rows_of(feed) == (ROWS + 501, True))
    feed.close()


def test_a_file_that_is_replaced_begins_anew(run: Path) -> None:
    feed = MetricFeed(run, 0.0)
    eventually(lambda: rows_of(feed) == (ROWS, True))
    write_rows(run, [row(1, START, loss__mean=1.0)])
    eventually(lambda: rows_of(feed) == (1, True))
    feed.close()


def test_looks_are_paced(run: Path) -> None:
    feed = MetricFeed(run, 3600.0)
    eventually(lambda: rows_of(feed) == (ROWS, True))
    version = feed.version()
    add_rows(run, [row(ROWS + 1, START, loss__mean=0.0)])
    assert (rows_of(feed)[0], feed.version()) == (ROWS, version)
    feed.close()


def test_metrics_that_appear_under_an_older_name(tmp_path: Path) -> None:
    run = tmp_path / "demo"
    (run / "logs").mkdir(parents=True)
    feed = MetricFeed(run, 0.0)
    assert rows_of(feed) == (0, True)
    (run / "metrics.jsonl").write_text('{"step": 1, "loss/mean": 1.0}\n')
    eventually(lambda: rows_of(feed) == (1, True))


def test_many_threads_share_one_reading(run: Path) -> None:
    feed = MetricFeed(run, 0.0)
    found: list[int] = []

    def ask() -> None:
        for _ in range(50):
            found.append(rows_of(feed)[0])
            feed.version()

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    eventually(lambda: rows_of(feed) == (ROWS, True))
    assert set(found) <= {50, ROWS}
    feed.close()


def test_an_overview_of_the_first_rows_says_so(run: Path, gate: threading.Event) -> None:
    client = client_of(run.parent)
    first = client.get(api(run, "overview"))
    assert (first.json["partial"], first.json["last_step"]) == (True, ROWS)
    loss = next(chart for one in first.json["sections"] for chart in one["charts"] if chart["id"] == "loss")
    assert loss["lines"][0]["x"][0] == ROWS - 49
    # What the beginning would have to tell is not guessed.
    assert all(tile["change"] is None for tile in first.json["tiles"])
    gate.set()
    eventually(lambda: not client.get(api(run, "overview")).json["partial"])
    whole = client.get(api(run, "overview"))
    assert whole.etag != first.etag
    (tail,) = client.get(api(run, "metrics/keys")).json["series"]
    assert (tail["points"], tail["first"]) == (ROWS, 0.5)
