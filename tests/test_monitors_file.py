"""The file monitor: what a run leaves behind, and what happens when it cannot be written."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import require_tool
from prl.config.common import FileMonitorConfig, MonitorsConfig
from prl.monitors import file as file_monitor
from prl.monitors.base import NullMonitor
from prl.monitors.file import FileMonitor, open_monitor
from prl.rundir import jsonl
from prl.rundir.annotations.reader import read_index as read_annotations
from prl.rundir.episodes.reader import iter_episodes, read_index, read_values
from prl.rundir.episodes.writer import EpisodeWriter
from prl.rundir.live.reader import read_live, read_pending
from prl.rundir.live.writer import LiveWriter
from prl.rundir.metrics.reader import read_metrics
from sample_episodes import make_episode, make_failure

DISPATCH = {"id": "d3", "kind": "train", "env": "wordle", "group": "g5", "step": 13, "started": 5.0}


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.01)


def rows(run: Path) -> list[dict[str, Any]]:
    return [line.value for line in jsonl.read_lines(run / "monitors" / "file" / "metrics.jsonl")[0]]


def traces_of(run: Path) -> Path:
    return run / "monitors" / "file" / "traces"


def update(trace_id: str, step: int = 12) -> dict[str, Any]:
    info = {"effective": True, "ship": {"step": step, "time": 5.0}, "advantage": 0.5}
    return {"version": 1, "trace_id": trace_id, "info": info, "branches": [{"index": 0, "advantages": [0.0, 0.5]}]}


def tree(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_without_the_monitor_nothing_is_left(tmp_path: Path) -> None:
    monitor = open_monitor(tmp_path, "orch", MonitorsConfig(file=None))
    monitor.log({"a": 1.0}, step=1)
    monitor.record_episode(make_episode())
    monitor.live_pending(DISPATCH)
    monitor.close(clean=True)
    assert isinstance(monitor, NullMonitor)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_ended_as_it_should(tmp_path: Path) -> None:
    orch = open_monitor(tmp_path, "orch", MonitorsConfig())
    trainer = open_monitor(tmp_path, "trainer", MonitorsConfig())
    orch.log({"time/step": 2.0}, step=1)
    trainer.log({"time/step": 3.0}, step=1)
    orch.log({"dispatcher/inflight/train": 4}, step=None)
    orch.record_episode(make_episode("e1"))
    orch.record_episode(make_failure("f1"))
    orch.annotate([update("t-e1")])
    trainer.annotate([update("t-e1")])
    for monitor in (orch, trainer):
        monitor.close(clean=True)
        monitor.close(clean=True)
    assert tree(tmp_path / "monitors" / "file") == [
        "metrics.jsonl",
        "traces/annotations/orch.index.jsonl",
        "traces/annotations/orch/00000.jsonl.zst",
        "traces/annotations/trainer.index.jsonl",
        "traces/annotations/trainer/00000.jsonl.zst",
        "traces/stream.index.jsonl",
        "traces/stream.values.jsonl",
        "traces/stream/00000.jsonl.zst",
    ]
    history = read_metrics(tmp_path / "monitors" / "file" / "metrics.jsonl")
    assert history.step_row("orch", 1) == {"time/step": 2.0}
    assert history.step_row("trainer", 1) == {"time/step": 3.0}
    assert history.series("orch", "dispatcher/inflight/train")[0].step is None
    traces = traces_of(tmp_path)
    assert [row["id"] for row in read_index(traces)] == ["e1", "f1"]
    assert [row["id"] for row in read_values(traces)] == ["e1", "f1"]
    assert [row["trace_id"] for row in read_annotations(traces, "trainer")] == ["t-e1"]
    assert monitor.dropped() == dict.fromkeys(file_monitor.KINDS, 0)  # type: ignore[attr-defined]


def test_provenance_is_stamped_where_the_caller_did_not(tmp_path: Path) -> None:
    monitor = FileMonitor(tmp_path, "orch", FileMonitorConfig())
    bare, stamped = make_episode("bare"), make_episode("stamped")
    bare["traces"][0]["info"] = {}
    before = time.time()
    for episode in (bare, stamped, make_failure("failed")):
        monitor.record_episode(episode)
    monitor.close(clean=False)
    records = [episode.record for episode in iter_episodes(traces_of(tmp_path))]
    info = records[0]["traces"][0]["info"]
    assert info["kind"] == "train"
    assert info["dispatch"] == {"step": 12, "time": 1_790_000_000.5}, "when the trace started"
    assert info["arrival"]["step"] == 12
    assert before <= info["arrival"]["time"] <= time.time()
    assert records[1]["traces"][0]["info"] == stamped["traces"][0]["info"]
    assert bare["traces"][0]["info"] == {}, "the caller's objects stay as they were"
    assert read_index(traces_of(tmp_path))[2]["arrival"] >= before, "a failure without a trace has an arrival too"


def test_values_that_are_not_finite_are_left_out_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monitor = FileMonitor(tmp_path, "trainer", FileMonitorConfig())
    monitor.log({"loss/mean": float("nan"), "optim/grad_norm": float("inf"), "optim/lr": 1e-6}, step=3)
    monitor.close(clean=True)
    assert caplog.messages == ["Dropping 2 non-finite value(s) from metrics.jsonl: loss/mean, optim/grad_norm"]
    assert rows(tmp_path)[0].keys() == {"step", "time", "optim/lr", "producer"}


def test_rollouts_in_flight_come_and_go(tmp_path: Path) -> None:
    monitor = FileMonitor(tmp_path, "orch", FileMonitorConfig(live_interval=0.01))
    traces = traces_of(tmp_path)
    left_over = traces / "live" / "old.jsonl"
    left_over.parent.mkdir(parents=True)
    left_over.write_text("{}")
    monitor.live_pending(DISPATCH)
    wait_until(lambda: read_pending(traces) == [DISPATCH], "the dispatch is pending")
    assert not left_over.exists()
    monitor.live_delta(DISPATCH, {"trace": "t9", "open": {"id": "t9"}})
    wait_until(lambda: [live.dispatch for live in read_live(traces)] == [DISPATCH], "its trace is live")
    assert read_pending(traces) == []
    monitor.live_done("d3")
    wait_until(lambda: read_live(traces) == [], "it is gone")
    monitor.live_pending({**DISPATCH, "id": "d4"})
    monitor.close(clean=True)
    assert read_pending(traces) == []


def test_a_stage_that_is_over_before_the_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, str]] = []
    for stage in ("pending", "deltas"):
        record = lambda self, dispatch, *deltas, stage=stage: written.append((stage, dispatch["id"]))  # noqa: E731
        monkeypatch.setattr(LiveWriter, stage, record)
    monitor = FileMonitor(tmp_path, "orch", FileMonitorConfig(live_interval=3600.0))
    for dispatch_id in ("over", "open", "waiting"):
        monitor.live_pending({**DISPATCH, "id": dispatch_id})
    for dispatch_id in ("over", "open"):
        monitor.live_delta({**DISPATCH, "id": dispatch_id}, {"trace": dispatch_id, "open": {"id": dispatch_id}})
    monitor.live_done("over")
    monitor.close(clean=True)
    assert written == [("pending", "waiting"), ("deltas", "open")]


def test_live_off_writes_none(tmp_path: Path) -> None:
    monitor = FileMonitor(tmp_path, "orch", FileMonitorConfig(live=False, live_interval=0.01))
    monitor.live_pending(DISPATCH)
    monitor.log({"a": 1.0}, step=1)
    monitor.close(clean=True)
    assert tree(tmp_path) == ["monitors/file/metrics.jsonl"]


def test_a_full_queue_drops_the_newest_and_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monitor = FileMonitor(tmp_path, "orch", FileMonitorConfig(queue_records=16, live_interval=0.01))
    blocked, release = threading.Event(), threading.Event()
    write = monitor._write

    def stuck(kind: str, item: Any) -> None:
        blocked.set()
        release.wait(20)
        write(kind, item)

    monkeypatch.setattr(monitor, "_write", stuck)
    monkeypatch.setattr(file_monitor, "LIVE_EVENTS", 1)
    monitor.log({"a": 0.0}, step=0)
    assert blocked.wait(20)
    for step in range(1, 20):
        monitor.log({"a": 1.0}, step=step)
    monitor.record_episode(make_episode())
    monitor.annotate([update("t"), update("t")])
    monitor.live_delta(DISPATCH, {"trace": "t9", "open": {"id": "t9"}})
    monitor.live_delta(DISPATCH, {"trace": "t9", "nodes": []})
    assert monitor.dropped() == {"metrics": 3, "episodes": 1, "annotations": 2, "live": 1}
    release.set()
    monitor.close(clean=True)
    found = rows(tmp_path)
    assert [row["step"] for row in found if "a" in row] == list(range(17))
    counts = [row for row in found if "monitor/dropped/episodes" in row][-1]
    assert counts["step"] is None
    assert {key: counts[f"monitor/dropped/{key}"] for key in monitor.dropped()} == monitor.dropped()
    assert read_live(traces_of(tmp_path)) == []
    monitor.log({"a": 1.0}, step=99)
    assert monitor.dropped()["metrics"] == 4, "after the end nothing is taken"


def test_close_waits_for_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monitor = FileMonitor(tmp_path, "orch", FileMonitorConfig())
    release = threading.Event()
    monkeypatch.setattr(monitor, "_write", lambda kind, item: release.wait(20))
    monkeypatch.setattr(file_monitor, "DRAIN_SECONDS", 0.05)
    monitor.log({"a": 0.0}, step=0)
    monitor.close(clean=True)
    assert "could not be written within" in caplog.messages[-1]
    release.set()
    monitor._thread.join(20)
    assert not monitor._thread.is_alive()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB. Making one takes root, which CI is."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        if os.environ.get("CI"):
            pytest.fail(f"cannot mount a small file system: {made.stderr}")
        pytest.skip(f"cannot mount a small file system: {made.stderr}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_full_disk_is_loud_and_writing_resumes(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(file_monitor, "RECOVERY_SECONDS", 0.0)
    monitor = FileMonitor(small_disk, "orch", FileMonitorConfig(compress=False, live_interval=0.01))

    def add(name: str) -> None:
        monitor.record_episode(make_episode(name))
        monitor.log({"a": 1.0}, step=added.setdefault(name, len(added)))
        monitor.annotate([update(f"t-{name}")])

    added: dict[str, int] = {}
    for i in range(3):
        add(f"before{i}")
    wait_until(lambda: len(read_index(traces_of(small_disk))) == 3, "the first episodes are written")
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space"), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    wait_until(
        lambda: add(f"during{len(added)}") or min(monitor.dropped()[kind] for kind in ("episodes", "metrics")) > 3,  # type: ignore[func-returns-value]
        "episodes and metrics are dropped",
    )
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert sum("Cannot write episodes" in record.getMessage() for record in errors) == 1, "said once, not each time"
    assert "[Errno 28]" in errors[0].getMessage()
    assert str(small_disk) in errors[0].getMessage()

    filler.unlink()
    wait_until(lambda: not monitor._queue, "the queue is empty")
    dropped = monitor.dropped()
    for i in range(3):
        add(f"after{i}")
    monitor.close(clean=True)
    assert monitor.dropped() == dropped, "nothing is dropped once there is space"
    assert any("Writing episodes again" in message for message in caplog.messages)

    traces = traces_of(small_disk)
    stored = [episode.record["id"] for episode in iter_episodes(traces)]
    assert [row["id"] for row in read_index(traces)] == stored
    assert [row["id"] for row in read_values(traces)] == stored
    assert [row["line"] for row in read_index(traces)] == list(range(1, len(stored) + 1))
    assert stored[:3] + stored[-3:] == ["before0", "before1", "before2", "after0", "after1", "after2"]
    assert len(stored) + dropped["episodes"] == len(added)
    found = rows(small_disk)
    assert len([row for row in found if "a" in row]) + dropped["metrics"] == len(added)
    counts = [row["monitor/dropped/episodes"] for row in found if "monitor/dropped/episodes" in row]
    assert counts[-1] == dropped["episodes"]


KILLED_WRITER = """
import sys
from pathlib import Path
from sample_episodes import make_episode
from prl.rundir.chunks import Sealer
from prl.rundir.episodes.writer import EpisodeWriter
traces, first = Path(sys.argv[1]), int(sys.argv[2])
writer = EpisodeWriter(traces, chunk_bytes=60_000, sealer=Sealer(traces / ".sealing"))
for i in range(first, first + 100_000):
    writer.append(make_episode(f"e{i}", tokens=300))
    print(i, flush=True)
"""


def test_a_killed_writer_loses_nothing_that_it_wrote(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    written: list[int] = []
    for wanted in (1, 40, 90):
        first = written[-1] + 10 if written else 0
        child = subprocess.Popen(
            [sys.executable, "-c", KILLED_WRITER, str(tmp_path), str(first)], stdout=subprocess.PIPE, text=True, env=env
        )
        assert child.stdout is not None
        try:
            for line in child.stdout:
                written.append(int(line))
                if len(written) >= wanted:
                    child.send_signal(signal.SIGKILL)
        finally:
            child.kill()
            child.wait()
            child.stdout.close()
    writer = EpisodeWriter(tmp_path, chunk_bytes=60_000)
    writer.append(make_episode("last"))
    writer.close(clean=True)
    damage = jsonl.Damage()
    stored = [episode.record["id"] for episode in iter_episodes(tmp_path, damage)]
    assert set(stored) >= {f"e{i}" for i in written}
    assert len(stored) <= len(written) + 1 + 3, "at most one record a kill was written but not yet said to be"
    assert damage.lines <= 3
    assert [row["id"] for row in read_index(tmp_path)] == stored
    assert [row["line"] for row in read_index(tmp_path)] == list(range(1, len(stored) + 1))
    assert [row["id"] for row in read_values(tmp_path)] == stored


TWO_PRODUCERS = """
import sys
from pathlib import Path
from prl.config.common import MonitorsConfig
from prl.monitors.file import open_monitor
monitor = open_monitor(Path(sys.argv[1]), sys.argv[2], MonitorsConfig())
for step in range(2000):
    monitor.log({f"key/{i}": float(step) for i in range(20)}, step=step)
monitor.close(clean=True)
"""


def test_two_processes_share_the_metrics_file(tmp_path: Path) -> None:
    producers = ("orch", "trainer")
    children = [subprocess.Popen([sys.executable, "-c", TWO_PRODUCERS, str(tmp_path), name]) for name in producers]
    try:
        assert [child.wait(60) for child in children] == [0, 0]
    finally:
        for child in children:
            child.kill()
    lines, damage = jsonl.read_lines(tmp_path / "monitors" / "file" / "metrics.jsonl")
    assert damage.lines == 0
    for producer in producers:
        assert [line.value["step"] for line in lines if line.value["producer"] == producer] == list(range(2000))


def shell(command: str, run: Path) -> str:
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command.replace("{run_dir}", str(run))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_shell_recipes_work_on_a_run_with_sealed_and_plain_chunks(tmp_path: Path) -> None:
    require_tool("zstd", "jq")
    monitor = FileMonitor(tmp_path, "orch", FileMonitorConfig(chunk_bytes=12_000))
    for i in range(5):
        monitor.record_episode(make_episode(f"e{i}", score=i / 4))
    monitor.record_episode(make_failure("f1"))
    monitor.annotate([update("t-e0"), update("t-e1", 13)])
    stream = traces_of(tmp_path) / "stream"
    wait_until(lambda: len(list(stream.glob("*.zst"))) == 1 == len(list(stream.glob("*.jsonl"))), "the first is sealed")
    monitor.close(clean=False)

    traces = "{run_dir}/monitors/file/traces"
    assert shell(f"wc -l < {traces}/stream.index.jsonl", tmp_path).strip() == "6"
    rewards = shell(f"zstd -dcf {traces}/stream/* | jq -c '.traces[].rewards'", tmp_path).splitlines()
    assert [json.loads(line)["win"]["score"] for line in rewards] == [0.0, 0.25, 0.5, 0.75, 1.0]
    failed = shell(f"zstd -dcf {traces}/stream/* | jq 'select(.ok | not) | {{id, env: .env.id, errors}}'", tmp_path)
    assert json.loads(failed) == {
        "id": "f1",
        "env": "words",
        "errors": [{"type": "EnvWorkerDied", "message": "the worker was killed"}],
    }
    shipped = shell(f"jq -c '{{trace_id, info}}' {traces}/annotations/orch.index.jsonl", tmp_path).splitlines()
    assert [json.loads(line)["info"]["ship"]["step"] for line in shipped] == [12, 13]

    resumed = FileMonitor(tmp_path, "orch", FileMonitorConfig(chunk_bytes=12_000))
    resumed.record_episode(make_episode("e6"))
    resumed.close(clean=True)
    assert all(path.suffix == ".zst" for path in stream.iterdir())
    assert len(shell(f"zstd -dcf {traces}/stream/* | jq -c .id", tmp_path).splitlines()) == 7
