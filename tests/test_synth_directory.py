"""Whole sample runs, as the readers of run directories and the verdict see them."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from prl.rundir import jsonl
from prl.rundir.chunks import plain_path, sealed_path
from prl.rundir.episodes.reader import iter_episodes, read_index
from prl.rundir.live.reader import read_live, read_pending
from prl.rundir.locate import locate
from prl.rundir.logs.reader import read_log
from prl.rundir.metrics.reader import read_metrics
from prl.synth import RunShape, runs_tree, write_run
from prl.synth.course import Course
from prl.synth.shape import ENVIRONMENTS, Kind, Layout, State
from prl.watch.assess import assess
from prl.watch.gather import gather
from prl.watch.verdict import DOWN, FAILED, FINISHED, HEALTHY, RUNNING, STOPPED, Verdict

SHAPE = RunShape(steps=12, rollouts=16, prompt_tokens=12, answer_tokens=8, eval_examples=4, error_rate=0.0)


def judge(root: Path, shape: RunShape) -> Verdict:
    return assess(gather(root, now=Course(shape).now))


@pytest.mark.parametrize("kind", ["rl", "sft", "eval"])
@pytest.mark.parametrize(
    ("state", "phase", "health"),
    [
        ("finished", FINISHED, HEALTHY),
        ("running", RUNNING, HEALTHY),
        ("failed", FAILED, DOWN),
        ("stopped", STOPPED, DOWN),
        ("hung", RUNNING, DOWN),
    ],
)
def test_the_verdict_is_the_one_that_was_asked_for(
    tmp_path: Path, kind: Kind, state: State, phase: str, health: str
) -> None:
    shape = replace(SHAPE, kind=kind, state=state, steps=1 if kind == "eval" else 12)
    verdict = judge(write_run(tmp_path / "run", shape), shape)
    assert (verdict.kind, verdict.health) == (kind, health), verdict.reason
    assert verdict.phase in (phase, "evaluating" if kind == "eval" and phase == RUNNING else phase)
    assert verdict.unknown == []
    assert verdict.step == shape.steps
    assert verdict.run == shape.run_name


def test_a_failed_run_tells_its_cause_and_a_hung_one_who_waits(tmp_path: Path) -> None:
    failed, hung = replace(SHAPE, state="failed"), replace(SHAPE, state="hung")
    causes = [finding.cause for finding in judge(write_run(tmp_path / "failed", failed), failed).findings]
    assert "CUDA out of memory" in str(causes[0])
    assert "trainer waits" in str(judge(write_run(tmp_path / "hung", hung), hung).reason)


def test_a_dropped_value_is_seen(tmp_path: Path) -> None:
    shape = replace(SHAPE, state="running", nonfinite_steps=(11, 12))
    verdict = judge(write_run(tmp_path / "run", shape), shape)
    assert verdict.health == DOWN
    assert any("loss/mean" in finding.message for finding in verdict.findings)


@pytest.mark.parametrize("layout", ["A", "B", "C"])
def test_the_layouts_of_older_runs_are_located(tmp_path: Path, layout: Layout) -> None:
    root = write_run(tmp_path / "run", replace(SHAPE, layout=layout, writer="prime-rl"))
    files = locate(root)
    assert files.layout == layout
    components = {log.component for log in files.logs}
    assert components >= {"trainer", "orchestrator", "inference", "envs/train/word sort+hint", "trainer/rank_0"}
    assert files.resolved is not None
    assert files.metrics is not None
    assert "job_8123" in components
    assert not (root / "launcher/status.json").exists()
    assert not (root / "tokenizer").exists()
    coloured = next(log.path for log in files.logs if log.component == "orchestrator")
    assert b"\x1b[2m" in coloured.read_bytes()
    assert any(entry.message.startswith("Step 12 | ") for entry in read_log(coloured).entries)
    rows = [line.value for line in jsonl.read_lines(files.metrics)[0]]
    assert ("producer" in rows[0]) == (layout != "A")
    traces = len(list((root / "rollouts").glob("step_*/train/*/traces.jsonl")))
    assert traces == (24 if layout == "A" else 0)


def test_the_metrics_tell_the_course(tmp_path: Path) -> None:
    history = read_metrics(write_run(tmp_path / "run", SHAPE) / "monitors/file/metrics.jsonl")
    reward = [point.value for point in history.series("orch", "train/agg/effective/agent/reward/mean")]
    entropy = [point.value for point in history.series("trainer", "entropy/all/mean")]
    assert len(reward) == len(entropy) == 12
    assert sum(reward[-4:]) > sum(reward[:4])
    assert entropy[-1] < entropy[0]
    keys = {key for _, key in history.names()}
    assert "train/word sort+hint/all/agent/metrics/kendall_tau/p90" in keys
    assert "eval/reverse-text/effective/agent/avg@1" in keys
    timed = history.series("orch", "watcher/policy_version")
    assert {point.step for point in timed} == {None}


def test_the_metrics_are_those_of_the_episodes(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run", SHAPE)
    history = read_metrics(root / "monitors/file/metrics.jsonl")
    shipped = {
        line.value["trace_id"]: line.value["info"]["ship"]["step"]
        for line in jsonl.read_lines(root / "monitors/file/traces/annotations/orch.index.jsonl")[0]
    }
    rows = [row for row in read_index(root / "monitors/file/traces") if shipped.get(row["trace_ids"][0]) == 3]
    mean = sum(row["reward"] for row in rows) / len(rows)
    points = history.series("orch", "train/agg/effective/agent/reward/mean")
    assert next(point.value for point in points if point.step == 3) == pytest.approx(mean)


def test_a_resumed_run_repeats_steps_after_its_checkpoint(tmp_path: Path) -> None:
    shape = replace(SHAPE, attempts=2, checkpoint_interval=4, steps=14)
    root = write_run(tmp_path / "run", shape)
    first, second = Course(shape).attempts
    assert (first.first, first.last, second.first, second.last, second.resumed_from) == (1, 7, 5, 14, 4)
    files = locate(root)
    assert files.attempts == (1, 2)
    assert (root / "logs/latest").resolve().name == "attempt_2"
    points = read_metrics(root / "monitors/file/metrics.jsonl").series("trainer", "loss/mean")
    assert [point.step for point in points] == list(range(1, 15))
    assert all((point.time or 0.0) > second.start for point in points if point.step and point.step >= 5)
    verdict = judge(root, shape)
    assert (verdict.phase, verdict.attempt) == (FINISHED, 2)


def test_rollouts_in_flight_are_seen_of_a_run_that_goes_on(tmp_path: Path) -> None:
    shape = replace(SHAPE, state="running", environments=ENVIRONMENTS[1:2], prompt_tokens=40)
    traces = write_run(tmp_path / "run", shape) / "monitors/file/traces"
    pending, live = read_pending(traces), read_live(traces)
    assert len(pending) == 3
    assert len(live) == 9
    assert {trace.dispatch["env"] for trace in live} == {"word sort+hint"}
    assert any(trace.trace["pending"] for trace in live)
    assert any(trace.trace["nodes"] for trace in live)
    recorded = {row["id"][:12] for row in read_index(traces)}
    assert not recorded & {dispatch["id"].removeprefix("d-") for dispatch in pending}


def test_the_chunks_of_an_ended_run_are_sealed_and_the_last_of_another_is_not(tmp_path: Path) -> None:
    small = replace(SHAPE, steps=4, chunk_bytes=100_000)
    ended = write_run(tmp_path / "ended", small) / "monitors/file/traces"
    going_on = write_run(tmp_path / "going_on", replace(small, state="running")) / "monitors/file/traces"
    assert sealed_path(ended / "stream", 0).exists()
    assert not list((ended / "stream").glob("*.jsonl"))
    assert sealed_path(going_on / "stream", 0).exists()
    assert len(list((going_on / "stream").glob("*.jsonl"))) == 1
    assert len(list(iter_episodes(ended))) == len(read_index(ended)) == 64
    assert not (ended / ".sealing").exists()
    assert not plain_path(ended / "annotations" / "orch", 0).exists()


def test_the_same_shape_gives_the_same_run(tmp_path: Path) -> None:
    shape = replace(SHAPE, steps=3, attempts=2)
    one, two = (_digest(write_run(tmp_path / name, shape)) for name in ("one", "two"))
    assert one == two
    other = _digest(write_run(tmp_path / "three", replace(shape, seed=1)))
    assert other["monitors/file/traces/stream.index.jsonl"] != one["monitors/file/traces/stream.index.jsonl"]


def test_every_line_of_the_logs_is_understood(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run", replace(SHAPE, state="failed", error_rate=0.2))
    for log in locate(root).logs:
        read = read_log(log.path)
        assert read.problem is None
        assert read.replaced == 0
        if not log.component.startswith("trainer/rank"):
            assert all(entry.level or entry.states > 1 for entry in read.entries), log.component
            times = [entry.time for entry in read.entries if entry.time is not None]
            assert times == sorted(times), log.component
            assert all(entry.exact for entry in read.entries if entry.level not in ("", "DATE"))


def test_several_inference_nodes_have_logs_of_their_own(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run", replace(SHAPE, steps=2, inference_nodes=2))
    logs = root / "logs/attempt_1"
    assert (logs / "inference.log").resolve() == (logs / "inference/node_0.log").resolve()
    assert b"Engine 001" in (logs / "inference/node_1.log").read_bytes()


def test_files_are_as_old_as_the_run(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run", SHAPE)
    course = Course(SHAPE)
    for directory, _, files in os.walk(root):
        for name in files:
            modified = (Path(directory) / name).lstat().st_mtime
            assert course.last.start <= modified <= course.now + 1, name


def test_what_is_there_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(FileExistsError, match="not an empty directory"):
        write_run(tmp_path, SHAPE)
    with pytest.raises(FileExistsError):
        write_run(tmp_path / "kept", SHAPE)


def test_what_makes_no_run_is_refused() -> None:
    with pytest.raises(ValueError, match="no multiple of group_size"):
        replace(SHAPE, rollouts=9)
    with pytest.raises(ValueError, match="attempts"):
        replace(SHAPE, attempts=13)
    with pytest.raises(ValueError, match="layout A"):
        replace(SHAPE, layout="A")
    with pytest.raises(ValueError, match="at least one step"):
        replace(SHAPE, steps=0)
    with pytest.raises(ValueError, match="answer_tokens"):
        replace(SHAPE, answer_tokens=10**6)


def test_a_tree_holds_runs_of_all_kinds(tmp_path: Path) -> None:
    said: list[tuple[str, int, int]] = []
    runs = runs_tree(tmp_path, 20, progress=lambda what, done, total: said.append((what, done, total)))
    assert len(set(runs)) == 20
    assert said[-1] == ("runs", 20, 20)
    assert {locate(run).layout for run in runs} == {"A", "B", "C"}
    kinds = {gather(run).run.kind for run in runs}
    assert kinds == {"rl", "sft", "eval"}
    before = runs[3].stat().st_mtime_ns
    assert runs_tree(tmp_path, 20) == runs
    assert runs[3].stat().st_mtime_ns == before


def _digest(root: Path) -> dict[str, str]:
    """The content of every file, and where every link leads."""
    return {
        path.relative_to(root).as_posix(): str(path.readlink())
        if path.is_symlink()
        else hashlib.sha256(path.read_bytes().replace(str(root).encode(), b"")).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_symlink() or path.is_file()
    }
