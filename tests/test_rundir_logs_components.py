"""Which logs an attempt has."""

from pathlib import Path

import pytest

from prl.rundir.logs.components import LogFile, list_logs, select_logs

ATTEMPT = "logs/attempt_2"


def touch(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n")


def components(root: Path, directory: str | None = ATTEMPT) -> list[str]:
    return [file.component for file in list_logs(root, directory).files]


def test_every_kind_of_log(tmp_path: Path) -> None:
    names = (
        "trainer.log", "orchestrator.log", "inference.log", "evals.log", "launcher.log", "envs/train/gsm.log",
        "envs/eval/a/b.log", "trainer/node_1.log", "inference/node_0.log", "inference/node_0_rank3.log",
        "inference/router_0.log", "trainer/torchrun/f00/attempt_0/10/stderr.log",
        "trainer/torchrun/f00/attempt_1/2/stdout.log",
    )  # fmt: skip
    touch(tmp_path, *(f"{ATTEMPT}/{name}" for name in names))
    touch(tmp_path, "launcher/logs/rl_job_81.log", "job_7.log", "slurm-81.out", "logs/attempt_1/trainer.log")
    files = {file.component: file for file in list_logs(tmp_path, ATTEMPT).files}
    assert list(files) == [
        "evals", "inference", "launcher", "orchestrator", "trainer", "envs/eval/a/b", "envs/train/gsm",
        "inference/node_0", "inference/node_0_rank3", "inference/router_0", "trainer/node_1",
        "trainer/rank_2", "trainer/rank_10", "rl_job_81", "job_7", "slurm-81",
    ]  # fmt: skip
    assert (files["inference/node_0_rank3"].node, files["inference/node_0_rank3"].rank) == (0, 3)
    assert (files["trainer/rank_10"].rank, files["trainer/rank_10"].repeats) == (10, True)
    assert {files[name].group for name in ("rl_job_81", "job_7", "slurm-81")} == {"job"}


def test_older_layouts_without_attempts(tmp_path: Path) -> None:
    touch(tmp_path, "logs/trainer.log", "logs/orchestrator.stdout", "logs/trainer/rank_1.log", "logs/attempt_1/x.log")
    assert components(tmp_path, "logs") == ["orchestrator", "trainer", "trainer/rank_1"]
    assert components(tmp_path, None) == []


def test_links(tmp_path: Path) -> None:
    # Loops end, what leaves the run is refused and said, two names of one file are one log, leftovers of NFS are none.
    root = tmp_path / "run"
    base = root / ATTEMPT
    touch(root, f"{ATTEMPT}/trainer/node_0.log", f"{ATTEMPT}/.nfs00000000000cb22e0000166a")
    touch(tmp_path, "outside.log")
    (base / "trainer.log").symlink_to("trainer/node_0.log")
    (base / "out.log").symlink_to(tmp_path / "outside.log")
    (base / "self").symlink_to("..")
    (base / "a.log").symlink_to("b.log")
    (base / "b.log").symlink_to("a.log")
    (base / "dangling.log").symlink_to("nowhere.log")
    (root / "logs/latest").symlink_to("attempt_9")
    found = list_logs(root, ATTEMPT)
    assert [(file.component, file.aliases) for file in found.files] == [("trainer", ("trainer/node_0",))]
    assert any("out.log" in trouble and "leaves the run" in trouble for trouble in found.trouble)
    assert found.files[0].matches("trainer/node_0")


def test_too_many_are_counted(tmp_path: Path) -> None:
    touch(tmp_path, *(f"{ATTEMPT}/envs/train/e{index}.log" for index in range(12)))
    found = list_logs(tmp_path, ATTEMPT, limit=10)
    assert (len(found.files), found.left_out) == (10, 2)
    assert found.files[2].component == "envs/train/e2"  # numbers in their order


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        (("trainer",), ["trainer"]),
        (("envs",), ["envs/train/gsm", "envs/eval/gsm"]),
        (("envs/train",), ["envs/train/gsm"]),
        (("*gsm", "inference"), ["inference", "envs/train/gsm", "envs/eval/gsm"]),
        (("trainer/rank_1",), ["trainer/rank_1"]),
        (("router",), ["inference"]),
        (("nothing",), []),
        ((), ["trainer", "inference", "envs/train/gsm", "envs/eval/gsm"]),
    ],
)
def test_components_are_chosen_by_name_group_or_pattern(wanted: tuple[str, ...], chosen: list[str]) -> None:
    names = ("trainer", "inference", "envs/train/gsm", "envs/eval/gsm")
    files = [LogFile(name, Path(f"{name}.log")) for name in names]
    files += [LogFile(f"trainer/rank_{rank}", Path(f"{rank}.log"), rank=rank, repeats=True) for rank in range(2)]
    assert [file.component for file in select_logs(files, wanted)] == chosen
