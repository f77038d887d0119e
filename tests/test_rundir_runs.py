"""What a list says about each run: what is there, what is missing, and what cannot be read."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from made_up_runs import LONG_AGO, aged, rl_files, write
from prl.rundir.recognition import is_run, run_id
from prl.rundir.runs import RunInfo, read_run

RESOLVED = "configs/attempt_1/resolved"


def test_run_of_the_newest_layout(tmp_path: Path) -> None:
    run = read_run(aged(write(tmp_path / "gsm--tiny--0a1b2c3d", rl_files())))
    assert (run.name, run.kind, run.layout, run.attempts, run.attempt) == ("gsm--tiny--0a1b2c3d", "rl", "C", (1,), 1)
    assert (run.model, run.train_envs, run.eval_envs) == ("org/tiny", ("gsm", "word-sort"), ("held-out",))
    assert (run.step, run.max_steps, run.last_progress) == (12, 40, LONG_AGO + 61)
    assert (run.phase, run.phase_as_of, run.job_id) == ("running", LONG_AGO + 100, "8123")
    assert run.created == LONG_AGO  # as environment.json says it, in UTC
    assert (run.changed, run.missing, run.problems) == (LONG_AGO, (), ())


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({f"{RESOLVED}/sft.json": {}}, "sft"),
        ({f"{RESOLVED}/orchestrator.json": {}}, "rl"),
        ({f"{RESOLVED}/trainer.json": {}}, "rl"),
        ({f"{RESOLVED}/rl.json": {}}, "rl"),
        ({f"{RESOLVED}/eval.json": {}}, "eval"),
        ({"monitors/file/eval.json": {}}, "eval"),
        ({f"{RESOLVED}/other.json": {}}, "other"),
        ({"logs/trainer.log": ""}, "other"),
    ],
)
def test_kind_follows_from_what_was_resolved(tmp_path: Path, files: dict[str, Any], kind: str) -> None:
    assert read_run(write(tmp_path, files)).kind == kind


def test_run_of_fine_tuning_and_of_evaluation(tmp_path: Path) -> None:
    sft = {"model": {"name": "m"}, "data": {"path": "talks.jsonl"}, "max_steps": 5}
    tuned = read_run(write(tmp_path / "sft", {f"{RESOLVED}/sft.json": sft}))
    assert (tuned.model, tuned.dataset, tuned.max_steps) == ("m", "talks.jsonl", 5)
    document = {"model": {"name": "m"}, "source": [{"env": {"taskset": {"id": "gsm"}}}]}
    rows = [{"line": 9, "arrival": 50.0}]
    judged = read_run(
        write(
            tmp_path / "ev",
            {
                f"{RESOLVED}/eval.json": document,
                "monitors/file/traces/stream.index.jsonl": rows,
                "monitors/file/plan.json": {"gsm": {"0": 16}},
            },
        )
    )
    assert (judged.eval_envs, judged.train_envs, judged.step, judged.last_progress) == (("gsm",), (), None, 50.0)
    assert judged.planned_episodes == 16


def test_older_layouts_say_what_they_are(tmp_path: Path) -> None:
    oldest = read_run(
        write(
            tmp_path / "a",
            {
                "configs/orchestrator.json": {"env": [{"id": "gsm"}], "model": {"name": "m"}, "max_steps": 9},
                "metrics.jsonl": [{"step": 4, "time": 7.0, "optim/lr": 1.0}],
                "rollouts/step_1/train/all/traces.jsonl": "",
                "job_77.log": "",
            },
        )
    )
    assert (oldest.layout, oldest.kind, oldest.train_envs, oldest.attempts) == ("A", "rl", ("gsm",), ())
    assert (oldest.step, oldest.last_progress, oldest.job_id, oldest.missing) == (4, 7.0, "77", ("logs",))
    middle = read_run(write(tmp_path / "b", {"configs/resolved/trainer.json": {}, "logs/trainer.log": ""}))
    assert (middle.layout, middle.missing) == ("B", ("metrics", "episodes"))


def test_directory_with_nothing_but_old_episodes_is_a_run(tmp_path: Path) -> None:
    run = read_run(write(tmp_path, {"rollouts/step_1/train_rollouts.jsonl": [{"reward": 1.0}]}))
    assert (is_run(tmp_path), run.layout, run.kind, run.missing) == (True, "A", "other", ("configs", "logs", "metrics"))


def test_newer_form_is_said_and_what_is_understood_is_shown(tmp_path: Path) -> None:
    files = rl_files()
    files["launcher/status.json"] |= {"schema_version": 99, "weather": "fine"}
    files["configs/attempt_1/environment.json"] |= {"schema_version": 7}
    run = read_run(write(tmp_path, files))
    assert (run.phase, run.step) == ("running", 12)
    assert [problem.partition(", this reader")[0] for problem in run.problems] == [
        "launcher/status.json: schema version 99",
        "environment.json: schema version 7",
    ]
    old = read_run(write(tmp_path / "x", {"metrics.jsonl": [{"schema_version": 99, "kind": "metric"}]}))
    assert old.problems[0].startswith("metrics.jsonl: schema version 99")


def test_dry_run_after_a_run_is_not_what_is_listed(tmp_path: Path) -> None:
    run = read_run(write(tmp_path, {**rl_files(), "configs/attempt_2/resolved/trainer.json": {"max_steps": 77}}))
    assert (run.attempts, run.attempt, run.phase) == ((1, 2), 1, "running")


def test_launchers_word_on_an_earlier_attempt_does_not_hold(tmp_path: Path) -> None:
    run = read_run(write(tmp_path, {**rl_files(), "logs/attempt_2/trainer.log": "x"}))
    assert (run.attempt, run.phase, run.phase_as_of) == (2, None, None)


def test_step_without_metrics_is_the_launchers(tmp_path: Path) -> None:
    files = {name: content for name, content in rl_files().items() if name.startswith(("configs", "logs", "launcher"))}
    run = read_run(write(tmp_path, files))
    assert (run.step, run.last_progress, run.missing) == (12, None, ("metrics", "episodes"))


def test_link_out_of_the_run_is_not_followed(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"orchestrator.json": {"model": {"name": "not mine"}}, "m.jsonl": ""})
    run = write(tmp_path / "run", {"logs/attempt_1/x.log": ""})
    (run / "configs").mkdir()
    (run / "configs/attempt_1").symlink_to(outside)
    (run / "monitors/file").mkdir(parents=True)
    (run / "monitors/file/metrics.jsonl").symlink_to(outside / "m.jsonl")
    found = read_run(run)
    assert (found.model, found.kind) == (None, "other")
    assert any(problem.startswith("monitors/file/metrics.jsonl: a link that leaves") for problem in found.problems)


def test_id_is_the_name_and_the_place(tmp_path: Path) -> None:
    one, two = write(tmp_path / "a/run", rl_files()), write(tmp_path / "b/run", rl_files())
    (tmp_path / "alias").symlink_to(one)
    ids = [read_run(path).id for path in (one, two, tmp_path / "alias")]
    assert ids[0] == run_id(os.path.realpath(one))
    assert (ids[0] == ids[2], ids[0] != ids[1]) == (True, True)
    assert ids[0].startswith("run~")
    assert len(ids[0]) == len("run~") + 8


def test_record_survives_json(tmp_path: Path) -> None:
    import json

    run = read_run(aged(write(tmp_path / "r", rl_files())))
    assert RunInfo.from_json(json.loads(json.dumps(run.to_json())), run.path) == run


GARBAGE: list[Any] = [None, 1, "text", [], {}, [[]], {"a": []}, {"name": 5}, {"source": 5}, {"source": [1, {}]}, True]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_values_of_wrong_types_are_unknown(tmp_path: Path, garbage: Any) -> None:
    keys = ("model", "train", "eval", "env", "max_steps", "data", "source", "orchestrator", "ckpt")
    document = dict.fromkeys(keys, garbage)
    files: dict[str, Any] = {f"{RESOLVED}/{n}.json": document for n in ("orchestrator", "trainer", "rl", "sft", "eval")}
    files |= {"launcher/status.json": {"phase": garbage}, "configs/attempt_1/environment.json": {"created": garbage}}
    run = read_run(write(tmp_path, files))
    assert (run.model, run.train_envs, run.dataset, run.phase) == (None, (), None, None) or garbage == {"name": 5}
    assert run.created is not None  # the directory's own time


@given(data=st.binary(max_size=200))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_in_any_file_leave_a_run(tmp_path: Path, data: bytes) -> None:
    root = write(tmp_path, dict.fromkeys(rl_files(), data))
    assert read_run(root).attempts == (1,)


def test_pipes_in_place_of_files_do_not_hang(tmp_path: Path) -> None:
    for name in rl_files():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(tmp_path / name)
    run = read_run(tmp_path)
    assert (run.attempts, run.model, run.step) == ((1,), None, None)
    assert "monitors/file/metrics.jsonl: not a regular file but a named pipe" in run.problems
