"""The orchestrator end to end, between an environment server, an engine and a trainer that speak real protocols."""

import logging
import math
import re
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator_fakes import FakeEnvServer, Play, World, world
from prl.orchestrator import dispatcher, loop, sources
from prl.orchestrator.dispatcher import NoCleanEpisodeError
from prl.orchestrator.engines import EngineError
from prl.orchestrator.loop import EnvServerGoneError
from prl.orchestrator.progress import load_progress
from prl.rundir import checkpoints
from prl.transport.batches import MicroBatch

NUM = r"[-+]?(?:\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|nan|inf)"
DUR = r"(?:\d+ms|\d+(?:\.\d+)?s|\d+m(?: \d+s)?|\d+h(?: \d+m)?|\d+d(?: \d+h)?)"
PCT = r"\d+(?:\.\d+)?%"
TAIL = (
    rf"Turns {NUM} \| Branches {NUM} \| Max Off-Policy \d+ \| Error {PCT} \| Cancelled {PCT} "
    rf"\| Truncation {PCT}(?: \| Timeout {PCT})?"
)
GROUP = r"[0-9a-f-]{36}"
# The run contract's words, by which tools read these lines.
LINES = {
    "orch_step": rf"^Step \d+ \| +{DUR} \| Reward {NUM} \| Trainable \d+/\d+ \({PCT}\) \| {TAIL}$",
    "orch_env_line": rf"^\s*╰─ \S.*? +\| Ratio {PCT} \| Reward {NUM} \| {TAIL}$",
    "pipeline": rf"^Train batch \d+/\d+ \({PCT}\)(?: \([^)]*=\d+[^)]*\))?(?: \(\+\d+ buffered\))?; \d+ inflight "
    r"episodes \(train=\d+, eval=\d+(?: \| [^)]*)?\)",
    "hold_ship": r"^Holding batch \d+ until inference applies policy v\d+ \(currently v\d+\)",
    "gate_close": r"^Pausing dispatcher until inference applies policy v\d+ \(currently v\d+\)",
    "gate_open": r"^Resuming dispatcher(?: \(policy v\d+\))?$",
    "wait_policy": rf"^Orchestrator waited {DUR} for policy updates, at least as long as its {DUR} active",
    "discarded": rf"^Discarded \d+/\d+ episodes \({PCT}\): stale=\d+, errored=\d+, no_signal=\d+",
    "few_trainable": rf"^Only \d+/\d+ effective traces are trainable \({PCT}\)",
    "stale_cancel": r"^Cancelled \d+ train episodes past max_off_policy_steps=\d+",
    "stale_drop": r"^Dropped \d+ queued traces past max_off_policy_steps=\d+",
    "empty_batch": r"^Step \d+: (?:skipping )?empty train batch after \d+ finalized episodes",
    "zero_output": r"^No admitted train payload after \d+ finalized units \(\d+ zero-output batch equivalents?\)",
    "trace_failed": rf"^Trace failed in group {GROUP} \([^)]+\) — \w+: .*$",
    "env_request_failed": rf"^(?:Environment request|Episode task) failed in group {GROUP} \([^)]+\): .*$",
    "empty_traj": rf"^Empty trajectory in group {GROUP} \([^)]+\)",
    "ckpt_save": r"^Saving (?:final )?checkpoint at step \d+",
    "resume_from": r"^Resuming (?:training |orchestrator )?from (?:checkpoint )?step \d+",
    "from_scratch": r"^Starting from scratch",
    "loop_start": r"^Starting orchestrator loop \(max_steps=(?:\d+|infinite)\)",
    "drain": r"^.+? — draining pipeline \(cancelled \d+ in-flight",
    "orch_done": r"^Orchestrator finished\.?$",
    "infer_wait": r"^Waiting for inference server at \S+ to start up \(\d+s elapsed\)",
}


@pytest.fixture(autouse=True)
def info_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "prl")


def said(caplog: pytest.LogCaptureFixture, line: str) -> list[str]:
    """The messages in a line's fixed words; multi-line messages count line by line."""
    lines = [part for message in caplog.messages for part in message.split("\n")]
    return [part for part in lines if re.search(LINES[line], part)]


def sequences(world: World) -> dict[int, list[dict[str, Any]]]:
    """Per step, every non-padding sequence that the trainer received, with its token columns cut out."""
    steps: dict[int, list[dict[str, Any]]] = {}
    for ranks in world.trainer.batches:
        for rank in ranks:
            for micro in rank.micro_batches:
                steps.setdefault(rank.step, []).extend(cut(micro))
    return steps


def cut(micro: MicroBatch) -> list[dict[str, Any]]:
    found, start = [], 0
    for index, length in enumerate(micro.sequence_lengths):
        part = slice(start, start + length)
        start += length
        if any(micro.loss_mask[part]):
            columns = ("token_ids", "loss_mask", "advantages", "logprobs")
            found.append({
                "trace": micro.trace_ids[index],
                "env": micro.env_names[index],
                "temperature": micro.temperatures[index],
                **{name: getattr(micro, name)[part] for name in columns},
            })  # fmt: skip
    return found


def records_by_trace(world: World) -> dict[str, dict[str, Any]]:
    return {trace["id"]: record for record in world.monitor.records for trace in record["traces"]}


def test_episodes_reach_the_trainer_with_the_right_advantages_masks_and_versions(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rewards = [0.0, 1.0, 0.5, 0.25]
    with world(tmp_path, lambda n, request: Play(reward=rewards[n % 4], turns=1 + n % 2)) as w:
        w.run()

    steps = sequences(w)
    assert sorted(steps) == [1, 2, 3, 4]
    assert w.engine.weights == [0, 1, 2, 3, 4]
    records = records_by_trace(w)
    groups = defaultdict(list)
    for record in w.monitor.records:
        groups[record["group"]["id"]].append(record["traces"][0]["rewards"]["made_up"]["score"])
    for step, sent in steps.items():
        assert len(sent) == 8
        for sequence in sent:
            n = int(sequence["trace"].removeprefix("trace"))
            record = records[sequence["trace"]]
            mean = sum(groups[record["group"]["id"]]) / 4
            turns = 1 + n % 2
            prompt = [*range(6), 7, 8]
            assert sequence["token_ids"] == (prompt + [1000 + n] * 3) * turns
            assert sequence["loss_mask"] == ([False] * 8 + [True] * 3) * turns
            # log-probabilities and advantages stand at the sampled tokens alone
            assert sequence["logprobs"] == pytest.approx(([0.0] * 8 + [-n / 1000] * 3) * turns)
            assert sequence["advantages"] == pytest.approx(([0.0] * 8 + [rewards[n % 4] - mean] * 3) * turns)
            assert (sequence["env"], sequence["temperature"]) == ("made-up", 1.0)
            span = record["run"]["work"]["policy"]
            assert 0 <= span["start"] <= span["end"] <= step - 1
    assert len({sequence["trace"] for sent in steps.values() for sequence in sent}) == 32

    for line in ("orch_step", "loop_start", "from_scratch", "drain", "orch_done"):
        assert said(caplog, line), line
    assert len(said(caplog, "orch_step")) == 4
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_records_are_stamped_annotated_and_shown_live(tmp_path: Path) -> None:
    with world(tmp_path, overrides={"train": {"source": [{"env": {"taskset": {"id": "made-up"}}}],
                                              "sampling": {"seed": 70, "max_completion_tokens": 9}}}) as w:  # fmt: skip
        w.run()
    for record in w.monitor.records:
        assert record["env"] == {"id": "made-up", "name": "made-up"}
        assert record["run"]["type"] == "train" and (record["run"]["id"], record["run"]["name"]) == ("r1", "demo")
        info = record["traces"][0]["info"]
        assert info["kind"] == "train" and info["dispatch"]["step"] <= info["arrival"]["step"]
        assert info["dispatch"]["time"] <= info["arrival"]["time"]
        assert record["run"]["work"]["step"] == info["dispatch"]["step"]
    assert set(w.monitor.live) == w.monitor.finished

    # the prefix cache must not serve what older weights computed: its salt is the version at the group's opening
    starts = {f"trace{n:06d}": request["sampling"] for n, request in enumerate(w.env.requests)}
    for trace, record in records_by_trace(w).items():
        assert starts[trace]["extra_body"] == {"cache_salt": str(record["run"]["work"]["policy"]["start"])}
        assert starts[trace]["max_completion_tokens"] == 9 and starts[trace]["temperature"] == 1.0
    assert [request["sampling"]["seed"] for request in w.env.requests[:5]] == [70, 71, 72, 73, 74]
    assert w.env.requests[0]["client"]["base_url"] == "http://localhost:8000/v1"

    shipped = {update["trace_id"]: update for update in w.monitor.updates}
    for step, sent in sequences(w).items():
        for sequence in sent:
            update = shipped[sequence["trace"]]
            assert update["version"] == 1 and update["info"]["effective"] is True
            assert update["info"]["ship"]["step"] == step
            assert update["branches"] == [{"index": 0, "advantages": sequence["advantages"]}]

    rows = w.monitor.steps()
    assert sorted(rows) == [1, 2, 3, 4] and all(row["step"] == step for step, row in rows.items())
    assert rows[1]["progress/total_rollouts"] == 0
    assert rows[2]["progress/total_rollouts"] == rows[1]["progress/rollouts"]
    assert rows[1]["train/made-up/effective/agent/reward/mean"] == 0.5
    assert rows[1]["progress/output_tokens"] == 24 and rows[1]["batch/made-up"] == 1.0


def test_both_sides_stay_within_a_step_and_every_wait_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with world(tmp_path, slow=lambda step: 0.15, overrides={"max_steps": 5}) as w:
        w.run()
    trainer = w.trainer
    for step in range(3, 6):
        # batch S leaves only once the engines run v(S - 2)
        assert trainer.received_at[step] >= trainer.broadcast_at[step - 2]
    lags = defaultdict(list)
    for record in w.monitor.records:
        work = record["run"]["work"]
        lags[record["group"]["id"]].append(work["step"] - 1 - work["policy"]["start"])
    # a group is opened within the lag; its later members may follow when the next batch is under collection
    assert all(min(of_group) <= 1 for of_group in lags.values())
    for line in ("hold_ship", "gate_close", "gate_open", "wait_policy", "pipeline"):
        assert said(caplog, line), line
    rows = w.monitor.steps()
    assert rows[4]["time/wait_for_policy"] <= rows[4]["time/step"]
    ticks = [row for step, row in w.monitor.rows if step is None]
    tick = next(row for row in ticks if "dispatcher/inflight/train" in row)
    assert tick["concurrency/max_inflight"] == 16 and tick["watcher/update_count"] >= 1
    assert tick["event_loop_lag/n"] >= 1 and tick["env_server/made-up/event_loop_lag/max"] == 0.004
    assert (tick["env_server/made-up/active"], tick["env_server/made-up/restarts"]) == (7, 1)
    assert any(row.get("inference/server0.0/kv_cache_usage_perc") == 0.25 for row in ticks)
    # paused, updated and resumed, in this order, for each version
    assert [path for path, _ in w.engine.calls] == ["/pause?mode=keep", "/update_weights", "/resume"] * 6


def test_nothing_older_than_the_bound_is_shipped_and_stale_work_is_cancelled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def script(n: int, request: Mapping[str, Any]) -> Play:
        return Play(reward=float(n % 2), hang=n % 12 == 3, delay=0.005 * (n % 5))

    with world(tmp_path, script, overrides={"max_steps": 8, "max_off_policy_steps": 1}) as w:
        w.run()
    ships = {update["trace_id"]: update["info"]["ship"]["step"] for update in w.monitor.updates}
    records = records_by_trace(w)
    assert len(ships) == 64
    for trace, step in ships.items():
        assert step - 1 - records[trace]["run"]["work"]["policy"]["start"] <= 1
    assert said(caplog, "stale_cancel")
    assert w.env.cancelled
    rows = w.monitor.steps()
    assert any(row["train/agg/all/cancelled/mean"] > 0 for row in rows.values())
    assert max(row["off_policy/max"] for row in rows.values()) <= 1


def test_no_staleness_at_all_can_be_asked_for(tmp_path: Path) -> None:
    with world(tmp_path, overrides={"max_off_policy_steps": 0, "max_steps": 3}) as w:
        w.run()
    records = records_by_trace(w)
    for step, sent in sequences(w).items():
        assert {records[sequence["trace"]]["run"]["work"]["policy"]["start"] for sequence in sent} == {step - 1}


def test_what_failed_does_not_train_and_its_siblings_are_compared_without_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def script(n: int, request: Mapping[str, Any]) -> Play:
        return {
            0: Play(reward=math.nan),
            5: Play(reward=None),
            10: Play(error="TaskError: made up\nin two lines"),
            15: Play(hang=True),
            20: Play(hang=True, silent=True),
            25: Play(finish_reason=None),
            30: Play(turns=0),
            35: Play(timeout=True),
        }.get(n % 40, Play(reward=float(n % 2)))

    with world(tmp_path, script, source={"timeout": 0.15}, overrides={"max_steps": 12}, slow=lambda step: 0.05) as w:
        w.run()
    by_error: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in w.monitor.records:
        for error in record["errors"] + [error for trace in record["traces"] for error in trace["errors"]]:
            assert record["ok"] is False
            by_error[error["type"]].append(record)
    assert set(by_error) == {
        "NonFiniteReward", "MissingReward", "TaskError", "Timeout", "AbortedGeneration", "EmptyTrajectory",
    }  # fmt: skip
    # a deadline keeps what had begun; without a trace the record still tells task, group and error
    assert {len(record["traces"]) for record in by_error["Timeout"]} == {0, 1}
    traceless = next(record for record in by_error["TaskError"])
    assert traceless["traces"] == [] and traceless["task"]["data"].keys() == {"idx"} and traceless["group"]["id"]
    for step, sent in sequences(w).items():
        assert all(not any(map(math.isnan, sequence["advantages"])) for sequence in sent), step
    failed = {trace["id"] for records in by_error.values() for record in records for trace in record["traces"]}
    shipped = {update["trace_id"]: update["info"]["advantage"] for update in w.monitor.updates}
    assert not failed & set(shipped)
    clean: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for record in w.monitor.records:
        if record["ok"]:
            trace = record["traces"][0]
            clean[record["group"]["id"]].append((trace["id"], trace["rewards"]["made_up"]["score"]))
    for members in clean.values():
        mean = sum(reward for _, reward in members) / len(members)
        for trace, reward in members:
            assert shipped.get(trace, reward - mean) == pytest.approx(reward - mean)
    for line in ("trace_failed", "env_request_failed", "empty_traj"):
        assert said(caplog, line), line
    totals: dict[str, float] = defaultdict(float)
    for row in w.monitor.steps().values():
        for key, value in row.items():
            totals[key] += value
    assert totals["train/agg/all/dispatch_failure/TaskError"] >= 1
    assert totals["train/agg/all/agent/error/NonFiniteReward"] >= 1


def test_groups_without_signal_are_collected_over_by_default_and_the_waste_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def script(n: int, request: Mapping[str, Any]) -> Play:
        return Play(reward=float(n % 2) if n // 4 % 4 == 3 else 1.0)

    with world(tmp_path, script) as w:
        w.run()
    assert all(len(sent) == 8 for sent in sequences(w).values())
    assert said(caplog, "discarded") and said(caplog, "zero_output")


def test_a_batch_may_shrink_instead(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def script(n: int, request: Mapping[str, Any]) -> Play:
        # the first two batches have no signal at all; after that every third group has
        return Play(reward=float(n % 4 == 0) if n >= 32 and n // 4 % 3 == 0 else 0.0)

    overrides = {"constant_trainer_batch_size": False, "max_steps": 2, "batch_size": 16}
    with world(tmp_path, script, overrides=overrides) as w:
        w.run()
    steps = sequences(w)
    assert all(0 < len(sent) < 16 for sent in steps.values())
    assert said(caplog, "empty_batch")
    trained = re.search(r"Trainable (\d+)/16 ", said(caplog, "orch_step")[0])
    assert trained and int(trained[1]) == len(steps[1])


def test_several_sources_and_ranks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    second = FakeEnvServer(lambda n, request: Play(reward=float(n % 2), metrics={"speed": 2.0}))
    try:
        (tmp_path / "resolved" / "train").mkdir(parents=True)
        (tmp_path / "resolved" / "train" / "other.address").write_text(second.address)
        two_sources = [
            {"env": {"taskset": {"id": "made-up"}}, "ratio": 3.0},
            {"env": {"taskset": {"id": "whatever"}}, "name": "other", "group_size": 2},
        ]
        overrides = {"train": {"source": two_sources}, "num_train_ranks": 2, "batch_size": 16, "max_steps": 3}
        with world(tmp_path, overrides=overrides) as w:
            w.run()
    finally:
        second.kill()
    for ranks in w.trainer.batches:
        assert len({len(rank.micro_batches) for rank in ranks}) == 1
        assert all(any(any(micro.loss_mask) for micro in rank.micro_batches) for rank in ranks)
    assert {sequence["env"] for sent in sequences(w).values() for sequence in sent} == {"made-up", "other"}
    assert len(w.env.requests) > len(second.requests) > 0
    assert len(said(caplog, "orch_env_line")) >= 2
    assert any(row.get("train/other/all/agent/metrics/speed/mean") == 2.0 for row in w.monitor.steps().values())


def test_the_death_of_an_env_server_is_survived_if_it_comes_back(tmp_path: Path) -> None:
    with world(tmp_path, lambda n, request: Play(reward=float(n % 2), hang=n >= 20), overrides={"max_steps": 6}) as w:
        port = int(w.env.address.rsplit(":", 1)[1])
        revived: list[FakeEnvServer] = []

        def replace() -> None:
            deadline = time.monotonic() + 20
            while len(w.env.requests) < 30 and time.monotonic() < deadline:
                time.sleep(0.01)
            w.env.kill()
            revived.append(FakeEnvServer(lambda n, request: Play(reward=float(n % 2)), port=port))

        replacing = threading.Thread(target=replace)
        replacing.start()
        try:
            w.run()
        finally:
            replacing.join(20)
            for server in revived:
                server.kill()
    assert len(w.trainer.batches) == 6
    lost = [record for record in w.monitor.records if any(e["type"] == "EnvServerLost" for e in record["errors"])]
    begun = [trace for record in lost for trace in record["traces"]]
    assert begun and all(trace["errors"][-1]["type"] == "EnvServerLost" for trace in begun)


def test_an_env_server_that_stays_away_ends_the_run_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "SERVER_GONE_TIMEOUT", 0.3)
    with world(tmp_path, lambda n, request: Play(hang=True)) as w:
        killer = threading.Timer(0.5, w.env.kill)
        killer.start()
        with pytest.raises(EnvServerGoneError, match=r"environment server made-up at tcp://.* has been gone"):
            w.run()
        killer.join(20)


def test_an_engine_that_refuses_weights_is_fatal_with_its_text(tmp_path: Path) -> None:
    with world(tmp_path, refuse=422) as w, pytest.raises(EngineError, match="422: checksum differs"):
        w.run()


def test_a_run_in_which_every_episode_fails_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "MAX_FAILED_BATCHES", 4)
    monkeypatch.setattr(sources, "_LONGEST_PAUSE", 0.01)
    with (
        world(tmp_path, lambda n, request: Play(error="TaskError: made up")) as w,
        pytest.raises(NoCleanEpisodeError, match=r"all failed, the last one in made-up with TaskError: .*made up"),
    ):
        w.run()
    assert len(w.monitor.records) >= 32


def test_what_does_not_come_up_is_named(tmp_path: Path) -> None:
    with world(tmp_path, overrides={"env_startup_timeout": 0.3}) as w:
        (tmp_path / "resolved" / "train" / "made-up.address").unlink()
        with pytest.raises(
            TimeoutError, match=r"environment server made-up to publish its address in .*made-up\.address"
        ):
            w.run()
    with world(tmp_path, overrides={"trainer_ready_timeout": 0.3}) as w:
        w.trainer.kill()
        with pytest.raises(TimeoutError, match=r"trainer ranks \[0\]|startup broadcast of v0"):
            w.run()
    url = "http://127.0.0.1:9"
    client = {"admin_base_url": [url], "wait_for_ready_timeout": 0.3, "ready_poll_interval": 0.02}
    with (
        world(tmp_path, overrides={"model": {"name": "tiny", "client": client}}) as w,
        pytest.raises(TimeoutError, match=f"inference server at {url} was not healthy"),
    ):
        w.run()


def test_a_resumed_run_goes_on_where_the_checkpoint_was_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shared = {"ckpt": {"interval": 2, "output_dir": tmp_path / "elsewhere"}}
    sampling = {"sampling": {"seed": 0}, "source": [{"env": {"taskset": {"id": "made-up"}}}]}
    with world(tmp_path / "a", overrides={**shared, "train": sampling}) as first:
        first.run()
    assert len(said(caplog, "ckpt_save")) == 2
    root = tmp_path / "elsewhere" / "checkpoints"
    for step in (2, 4):  # the trainer's half, of which only the marker matters here
        half = checkpoints.begin_half(root, step, checkpoints.TRAINER)
        (half / ".metadata").touch()
        assert checkpoints.publish_half(root, step, checkpoints.TRAINER)

    progress, state = load_progress(root / "step_2")
    rows = first.monitor.steps()
    assert progress.step == 2 and progress.total_samples == rows[3]["progress/total_rollouts"]
    resume = {"resume": {"step": 2}, "train": sampling}
    with world(tmp_path / "b", overrides={**shared, **resume}, start=2) as second:
        second.run()
    assert "Resuming orchestrator from step 2" in said(caplog, "resume_from")[0]
    assert sorted(sequences(second)) == [3, 4] and second.engine.weights == [2, 3, 4]
    assert second.monitor.steps()[3]["progress/total_rollouts"] == progress.total_samples
    # tasks and seeds continue after those that had been drawn by then
    drawn = state["train"]["sources"]["made-up"]
    cursor = sources.TaskCursor("made-up", 12, 42)
    order = [cursor.draw() for _ in range(36)]
    position = drawn["epoch"] * 12 + drawn["cursor"]
    assert first.env.requests[0]["task_data"]["idx"] == order[0] and position >= 4
    assert second.env.requests[0]["task_data"]["idx"] == order[position]
    assert second.env.requests[0]["sampling"]["seed"] == state["requests"]

    with (
        world(tmp_path / "c", overrides={**shared, "resume": {"step": 4}}, start=4) as third,
        pytest.raises(ValueError, match="max_steps = 4 is reached, nothing is left to train"),
    ):
        third.run()
    with (
        world(tmp_path / "d", overrides={**shared, "resume": {"step": 3}}, start=3) as fourth,
        pytest.raises(FileNotFoundError, match=r"step_3: no complete checkpoint; complete steps in .*: \[2, 4\]"),
    ):
        fourth.run()
