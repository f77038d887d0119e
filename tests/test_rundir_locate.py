"""Where the files of a run lie, in the three layouts."""

from pathlib import Path

from prl.rundir.locate import MAX_LOGS, has_logs, list_attempts, locate


def touch(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")


def test_layout_c_with_attempts(tmp_path: Path) -> None:
    touch(
        tmp_path,
        "configs/attempt_2/resolved/trainer.json",
        "logs/attempt_1/trainer.log",
        "logs/attempt_2/trainer.log",
        "logs/attempt_2/envs/train/gsm.log",
        "logs/attempt_2/trainer/torchrun/f00/attempt_0/3/stderr.log",
        "logs/attempt_2/inference/node_1.log",
        "launcher/logs/job_8123.log",
        "monitors/file/metrics.jsonl",
    )
    files = locate(tmp_path)
    assert (files.layout, files.attempts, files.attempt) == ("C", (1, 2), 2)
    assert files.resolved == tmp_path / "configs/attempt_2/resolved"
    assert files.metrics == tmp_path / "monitors/file/metrics.jsonl"
    assert [log.component for log in files.logs] == [
        "trainer",
        "envs/train/gsm",
        "inference/node_1",
        "trainer/rank_3",
        "job_8123",
    ]
    earlier = locate(tmp_path, attempt=1)
    assert (earlier.configs, [log.component for log in earlier.logs]) == (None, ["trainer", "job_8123"])


def test_layout_b_without_attempts(tmp_path: Path) -> None:
    touch(tmp_path, "configs/resolved/orchestrator.json", "logs/trainer.log", "monitors/file/metrics.jsonl")
    files = locate(tmp_path)
    assert (files.layout, files.attempt, files.resolved) == ("B", None, tmp_path / "configs/resolved")
    assert [log.component for log in files.logs] == ["trainer"]


def test_layout_a_with_everything_at_the_top(tmp_path: Path) -> None:
    touch(tmp_path, "configs/trainer.json", "logs/orchestrator.log", "metrics.jsonl", "job_77.log")
    files = locate(tmp_path)
    assert (files.layout, files.resolved, files.metrics) == ("A", tmp_path / "configs", tmp_path / "metrics.jsonl")
    assert [log.component for log in files.logs] == ["orchestrator", "job_77"]


def test_nothing_there(tmp_path: Path) -> None:
    files = locate(tmp_path / "absent")
    assert (files.attempts, files.configs, files.resolved, files.logs, files.metrics) == ((), None, None, (), None)


def test_many_logs_are_cut_and_counted(tmp_path: Path) -> None:
    touch(tmp_path, *(f"logs/attempt_1/envs/train/env-{index}.log" for index in range(MAX_LOGS + 3)))
    files = locate(tmp_path)
    assert (len(files.logs), files.logs_left_out) == (MAX_LOGS, 3)


def test_a_dry_run_leaves_an_attempt_without_logs(tmp_path: Path) -> None:
    touch(tmp_path, "configs/attempt_1/rl.toml", "configs/attempt_2/rl.toml", "logs/attempt_1/trainer.log")
    (tmp_path / "configs/attempt_x").mkdir()
    assert list_attempts(tmp_path) == [1, 2]
    assert [has_logs(tmp_path, number) for number in (1, 2)] == [True, False]
