"""Which jobs ran a run, and which attempt each belongs to where that can be told."""

from pathlib import Path

import pytest

from made_up_runs import aged, rl_files, write
from prl.rundir.jobs import MAX_ATTEMPTS, read_jobs


def environment(job_id: object) -> dict[str, object]:
    return {"environment": {"SLURM_JOB_ID": job_id}}


def test_ids_of_the_launcher_and_of_the_cluster(tmp_path: Path) -> None:
    files = {**rl_files(), "launcher/logs/job_8123.log": "x", "launcher/rl.sbatch": SCRIPT}
    found = read_jobs(write(tmp_path, files))
    assert found.run_id == "0" * 32
    (job,) = found.jobs
    assert (job.id, job.attempts, job.log) == ("8123", (1,), "launcher/logs/job_8123.log")
    assert job.sources == ("launcher/logs/job_8123.log", "configs/attempt_1/environment.json")
    assert found.script == "launcher/rl.sbatch"
    assert found.options == {"job-name": "prime-rl", "gres": "gpu:8", "exclusive": "", "time": "04:00:00"}


SCRIPT = """#!/bin/bash
#SBATCH --job-name=prime-rl
#SBATCH --gres=gpu:8
#SBATCH --exclusive
#SBATCH --time "04:00:00"
echo "#SBATCH --not=this"
"""


def test_attempts_are_told_by_what_each_attempt_recorded(tmp_path: Path) -> None:
    found = read_jobs(
        write(
            tmp_path,
            {
                "configs/attempt_1/environment.json": environment("100"),
                "configs/attempt_2/environment.json": environment("100"),  # requeued under its id
                "configs/attempt_3/rl.toml": "",
                "logs/attempt_3/trainer/torchrun/job_205_x/attempt_0/0/stderr.log": "",
                "launcher/logs/job_100.log": "",
                "launcher/logs/job_150.log": "",
                "launcher/job.json": {"job_id": 310},
            },
        )
    )
    told = {job.id: job.attempts for job in found.jobs}
    assert told == {"100": (1, 2), "205": (3,), "150": (), "310": ()}


@pytest.mark.parametrize(("log", "name"), [("job_4240_2.log", "4240_2"), ("job_4242.log", "4242"), ("x.log", "4242")])
def test_task_of_an_array_is_one_job(tmp_path: Path, log: str, name: str) -> None:
    # %A_%a or %j in the name of its log; the environment tells all three numbers.
    task = {"SLURM_JOB_ID": "4242", "SLURM_ARRAY_JOB_ID": "4240", "SLURM_ARRAY_TASK_ID": "2"}
    recorded = {"configs/attempt_1/environment.json": {"environment": task}, f"launcher/logs/{log}": ""}
    assert [(job.id, job.attempts) for job in read_jobs(write(tmp_path, recorded)).jobs] == [(name, (1,))]


def test_what_the_launcher_said_when_it_submitted(tmp_path: Path) -> None:
    said = "12:00:00 SUCCESS Submitted batch job 8123\n\nLogs:\n  Trainer: tail -F ...\n"
    files = {"configs/attempt_2/rl.toml": "", "configs/attempt_1/rl.toml": "", "logs/attempt_2/launcher.log": said}
    (job,) = read_jobs(write(tmp_path, files)).jobs
    assert (job.id, job.attempts, job.log) == ("8123", (2,), None)


def test_one_job_and_one_attempt_belong_together(tmp_path: Path) -> None:
    found = read_jobs(write(tmp_path, {"configs/attempt_1/rl.toml": "", "launcher/logs/job_77.log": ""}))
    assert [(job.id, job.attempts) for job in found.jobs] == [("77", (1,))]


def test_old_layout_has_its_job_logs_at_the_top(tmp_path: Path) -> None:
    found = read_jobs(aged(write(tmp_path, {"job_77.log": "", "my-run_job_12_3.log": "", "rl.sbatch": SCRIPT})))
    assert [job.id for job in found.jobs] == ["12_3", "77"]
    assert (found.run_id, found.script) == (None, "rl.sbatch")


@pytest.mark.parametrize("name", ["job_.log", "job_x.log", "job_1.log.gz", f"job_{'9' * 40}.log", "prejob_1.log"])
def test_other_names_are_no_jobs(tmp_path: Path, name: str) -> None:
    assert read_jobs(write(tmp_path, {f"launcher/logs/{name}": ""})).jobs == ()


@pytest.mark.parametrize("value", [8123, None, [], "rm -rf /", "8123; ls", "-1"])
def test_recorded_id_that_is_none_is_ignored(tmp_path: Path, value: object) -> None:
    files = {"configs/attempt_1/environment.json": environment(value), "launcher/status.json": "[]"}
    found = read_jobs(write(tmp_path, files))
    assert (found.jobs, found.run_id) == ((), None)


def test_of_very_many_attempts_the_newest_are_looked_at(tmp_path: Path) -> None:
    for number in range(1, MAX_ATTEMPTS + 50):
        (tmp_path / f"configs/attempt_{number}").mkdir(parents=True)
    write(tmp_path, {f"configs/attempt_{n}/environment.json": environment(str(n)) for n in (1, MAX_ATTEMPTS + 49)})
    assert [job.id for job in read_jobs(tmp_path).jobs] == [str(MAX_ATTEMPTS + 49)]
