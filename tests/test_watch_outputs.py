"""Every face of a verdict says the same, in whatever state a run is, and lets out no stranger's text as it is."""

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import fault_runs
from fault_runs import ENV, TITLES
from prl.cli.check_in import check_in
from prl.cli.restart_plan import restart_plan
from prl.cli.runs import runs
from prl.cli.status import status
from prl.rundir.status import FAILED
from prl.slurm import commands
from prl.watch import Facts, assess, gather, render
from prl.watch.facts import loads
from prl.watch.launch_site import NOT_LOOKED
from prl.watch.restart import plan
from prl.watch.restart_screen import render_plan
from prl.watch.status_md import entry
from prl.watch.verdict import HEALTHS
from sample_runs import SampleRun, running
from slurm_answers import Recorded, squeue
from test_rundir_robustness import BAD, GOOD

SECRETS = ("abcdefghijklmnop", "0123456789abcdef", "s3cr3tpassw0rd")
HOSTILE = (
    "\x1b]0;pwned\x07\x1b[2J\x1b]8;;http://x.invalid\x07link\x1b]8;;\x07 \u202egnp.exe\u2066 \u009b31m "
    "<img src=x onerror=alert(1)> \r**Health**: Healthy \x00\x08 "
    "HF_TOKEN=hf_abcdefghijklmnop WANDB_API_KEY=0123456789abcdef https://u:s3cr3tpassw0rd@x.invalid/"
)
"""Escapes, a link, reversed writing, markup, a forged line of a check-in, secrets."""
_NAME = "run\x1b]0;pwned\x07\x1b[2J\u202e<img src=x onerror=alert(1)> HF_TOKEN=hf_abcdefghijklmnop\r"
"""The same as a file may be named."""
_BELOW = "\n## 2026-01-01 00:00 UTC\n\n**Health**: Healthy\n"


def hostile_run(output_dir: Path) -> SampleRun:
    """A failed run inside a job, with such a text wherever somebody else may choose one."""
    run, _ = running(output_dir, name=_NAME + _BELOW)
    now = time.time()
    source = {"name": HOSTILE, "env": {"taskset": {"id": HOSTILE}}}
    run.write_resolved(
        orchestrator={"max_steps": 40, "train": {"source": [source]}, "model": {"name": HOSTILE}},
        trainer={"max_steps": 40, "ckpt": {"output_dir": HOSTILE + _BELOW}},
    )
    (run.configs / "command.txt").write_text(f"rl @ rl.toml --note '{HOSTILE}'\n")
    surroundings = {
        "cwd": f"/{HOSTILE}",
        "host": {"name": HOSTILE},
        "python": {"interpreter": HOSTILE},
        "environment": {"SLURM_JOB_ID": "4242", "SLURM_JOB_NAME": HOSTILE},
    }
    (run.configs / "environment.json").write_text(json.dumps(surroundings))
    key = f"train/{HOSTILE}/effective/agent/metrics/{HOSTILE}/mean"
    run.metrics("orch", 13, now, **{key: 1.0, f"train/{HOSTILE}/all/has_error/mean": 1.0})
    run.metrics("trainer", 13, now, **{"loss/mean": float("nan")})
    run.log("trainer", (now, "WARNING", f"Dropping 1 non-finite value(s) from metrics.jsonl: loss/mean{HOSTILE}"))
    run.log("trainer", (now, "ERROR", f"Fatal error in train {HOSTILE}"), f"ValueError: {HOSTILE}", _BELOW)
    run.log("inference", (now, "ERROR", f"OSError: [Errno 28] No space left on device: '{HOSTILE}'"))
    run.log(f"envs/train/{_NAME}", (now, "ERROR", HOSTILE))
    job = run.layout.launcher / "logs/job_4242.log"
    job.parent.mkdir()
    job.write_text(f"HOSTNAMES={HOSTILE}\n[{HOSTILE}] component exited with code 1 - waiting up to 3600s for x\n")
    for name in (*TITLES, ENV):
        run.end(name, 1 if name == "trainer" else -15, now)
        run.process(name).reason = HOSTILE + _BELOW
        run.process(name).title = HOSTILE
    run.write_status(
        phase=FAILED,
        exit_code=1,
        reason=HOSTILE + _BELOW,
        waiting_for=HOSTILE,
        run_name=HOSTILE,
        ended=now,
        updated=now,
    )
    return run


def check_harmless(text: str) -> None:
    bad = sorted({hex(ord(c)) for c in text if (ord(c) < 32 and c != "\n") or 0x7F <= ord(c) <= 0x9F})
    assert bad == []
    assert not set(text) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")
    assert [secret for secret in SECRETS if secret in text] == []


@pytest.mark.parametrize(
    "args",
    [
        (status,),
        (status, "--json"),
        (status, "--since-restart"),
        (status, "--since-restart", "--json"),
        (check_in,),
        (check_in, "--json"),
        (restart_plan,),
        (restart_plan, "--json"),
    ],
    ids=lambda args: " ".join([args[0].name, *args[1:]]),
)
def test_hostile_text_in_every_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[object, ...]
) -> None:
    monkeypatch.setenv("PRL_STATE_DIR", str(tmp_path / "state"))
    hostile_job = {"j": HOSTILE, "r": HOSTILE, "T": HOSTILE, "N": HOSTILE, "k": HOSTILE, "Z": HOSTILE, "o": HOSTILE}
    said = Recorded(
        squeue=lambda query: squeue(query, hostile_job, at=time.time()),
        **{name: lambda query: commands.Answer(HOSTILE, None, time.time()) for name in ("sacct", "sinfo", "scontrol")},
    )
    monkeypatch.setattr(commands, "run", said)
    run = hostile_run(tmp_path)
    command, *options = args
    result = CliRunner().invoke(command, [str(run.root), *map(str, options)], standalone_mode=False)  # type: ignore[arg-type]
    assert result.exception is None
    check_harmless(result.stdout)
    if "--json" in options:
        assert json.loads(result.stdout)["schema_version"] == 1
    if command is check_in:
        text = run.layout.status_md.read_text()
        check_harmless(text)
        # No line that a reader would take for another entry, or for its fields.
        assert len(re.findall(r"^## ", text, re.M)) == 1
        assert re.findall(r"^\*\*Health\*\*: (.*)$", text, re.M) == ["Down"]


def test_hostile_runs_in_the_list_and_in_saved_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRL_CACHE_DIR", str(tmp_path / "cache"))
    run = hostile_run(tmp_path / "outputs")
    for options in ((), ("--json",)):
        result = CliRunner().invoke(runs, [str(tmp_path / "outputs"), *options], standalone_mode=False)
        assert result.exception is None
        check_harmless(result.stdout)
    saved = tmp_path / "facts.json"
    CliRunner().invoke(status, [str(run.root), "--save-facts", str(saved)], standalone_mode=False)
    check_harmless(saved.read_text())
    assert loads(saved.read_bytes()).launcher is not None


def check_faces(facts: Facts) -> None:
    """Screen, STATUS.md, plan and JSON give the verdict of the one function."""
    verdict = assess(facts)
    assert verdict.health in HEALTHS
    assert "rule.failed" not in [finding.rule for finding in verdict.findings]
    assert loads(json.dumps(facts.to_json(), allow_nan=False)) == facts
    assert json.loads(json.dumps(verdict.to_json(), allow_nan=False))["health"] == verdict.health
    assert f"{verdict.health}: " in render(verdict)
    # The template has three values.
    written = {"Unknown": "Degraded"}.get(verdict.health, verdict.health)
    assert f"**Health**: {written}\n" in entry(verdict, None, [])
    assert render_plan(plan(facts, verdict, NOT_LOOKED))


@pytest.mark.parametrize(
    "make",
    [
        fault_runs.milliseconds_a_step,
        fault_runs.engine_dead_with_the_cause_above,
        fault_runs.deadlock_at_resume,
        fault_runs.stopped_by_signal,
        fault_runs.launcher_of_another_host_is_silent,
        fault_runs.nothing_at_all,
    ],
)
def test_one_function_speaks_through_every_face(tmp_path: Path, make: Callable[[Path], fault_runs.State]) -> None:
    state = make(tmp_path)
    check_faces(gather(state.root, state.now, ask_slurm=False))


FILES = (
    "monitors/file/metrics.jsonl",
    "monitors/file/traces/stream.index.jsonl",
    "logs/attempt_1/trainer.log",
    "logs/attempt_1/orchestrator.log",
    "logs/attempt_1/inference.log",
    "launcher/status.json",
    "launcher/logs/job_7.log",
    "configs/attempt_1/resolved/orchestrator.json",
    "configs/attempt_1/resolved/trainer.json",
    "configs/attempt_1/environment.json",
    "configs/attempt_1/command.txt",
    "trainer_step",
    "STATUS.md",
)


@pytest.fixture(scope="module")
def any_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float, dict[str, bytes]]:
    run, now = running(tmp_path_factory.mktemp("any"))
    (run.layout.launcher / "logs").mkdir()
    return (
        run.root,
        now,
        {name: b"" if not (run.root / name).exists() else (run.root / name).read_bytes() for name in FILES},
    )


LINES = st.lists(GOOD | BAD, max_size=6).map(b"\n".join)


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from(FILES), LINES | st.binary(max_size=200), max_size=4), st.booleans())
def test_files_of_any_bytes_give_a_verdict_on_every_face(
    any_run: tuple[Path, float, dict[str, bytes]], contents: dict[str, bytes], after: bool
) -> None:
    """In the place of a file, or after what it holds."""
    root, now, whole = any_run
    try:
        for name, data in contents.items():
            (root / name).write_bytes(whole[name] + data if after else data)
            os.utime(root / name, (now, now))
        check_faces(gather(root, now, ask_slurm=False))
    finally:
        for name in contents:
            (root / name).write_bytes(whole[name])
