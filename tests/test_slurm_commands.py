"""Only reading can be asked of SLURM, within bounds, and nothing else of this half of the project starts a process."""

import ast
import os
import re
import time
from pathlib import Path

import psutil
import pytest

import prl
from prl.slurm import commands
from prl.slurm.commands import Answer, Kind, Query, allowed, environment, run, trouble_of

PACKAGE = Path(prl.__file__).parent
READERS = ("text", "rundir", "slurm", "watch", "dashboard")
STARTERS = {
    "slurm/commands.py",  # the allowed queries
    "dashboard/daemon.py",  # the dashboard itself, for a launcher that found none
    "dashboard/searching.py",  # its own module again, so that a regular expression without end can be ended
}

SQUEUE = ("squeue", "--noheader", "--states=all", "--jobs=1", "--format=%i")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of stand-ins that comes first in PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    return directory


def stand_in(programs: Path, name: str, script: str) -> None:
    path = programs / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def squeue(programs: Path, script: str, **bounds: float) -> Answer:
    stand_in(programs, "squeue", script)
    return run(Query(SQUEUE, **bounds))  # type: ignore[arg-type]


def test_answer_and_its_surroundings(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What a user's shell says about formats and times must not change the answer; the cluster's address must.
    monkeypatch.setenv("SQUEUE_FORMAT", "%j")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    monkeypatch.setenv("SLURM_CONF", "/etc/cluster.conf")
    answer = squeue(programs, 'env | sort; pwd; cat; printf "\\303\\050"')
    lines = answer.text.split("\n")
    assert answer.trouble is None
    assert {"LC_ALL=C", "SLURM_TIME_FORMAT=%s", "SLURM_CONF=/etc/cluster.conf"} <= set(lines)
    assert not any(line.startswith("SQUEUE_FORMAT") for line in lines)
    assert lines[-2:] == ["/", "�("]
    assert abs(answer.at - time.time()) < 60


def test_environment_is_made_of_few_variables() -> None:
    own = {"PATH": "/bin", "SLURM_JOB_ID": "1", "SACCT_FORMAT": "x", "HF_TOKEN": "y"}
    assert environment(own) == {"PATH": "/bin", "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}


def test_program_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = run(Query(SQUEUE))
    assert answer.text == ""
    assert answer.trouble is not None
    assert (answer.trouble.kind, str(answer.trouble)) == (Kind.NOT_INSTALLED, "squeue: not installed")


def test_program_that_may_not_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "squeue").write_text("no program")
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = run(Query(SQUEUE))
    assert answer.trouble is not None
    assert answer.trouble.kind is Kind.REFUSED


@pytest.mark.parametrize("obstinate", [False, True])
def test_late_program_is_ended(programs: Path, tmp_path: Path, obstinate: bool) -> None:
    ignoring = "trap '' TERM; " if obstinate else ""
    # Nor does a grandchild that holds the pipe keep the answer.
    answer = squeue(
        programs, f"{ignoring}echo $$ > {tmp_path}/pid; echo half; while :; do sleep 0.05; done", seconds=0.5
    )
    assert answer.trouble is not None
    assert (answer.trouble.kind, answer.trouble.message) == (Kind.TIMED_OUT, "no answer within 0.5 s")
    assert answer.trouble.silent
    assert answer.text == "half\n"
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_late_program_that_said_why(programs: Path) -> None:
    said = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    answer = squeue(programs, f"echo '{said}' >&2; exec sleep 30", seconds=0.5)
    assert answer.trouble is not None
    assert (answer.trouble.kind, answer.trouble.message) == (Kind.CONTROLLER_SILENT, said)


def test_endless_output_is_cut(programs: Path) -> None:
    answer = squeue(programs, "exec yes", max_bytes=1000)
    assert answer.trouble is not None
    assert answer.trouble.kind is Kind.TOO_LONG
    assert answer.text == "y\n" * 500


def test_endless_complaints_are_cut(programs: Path) -> None:
    answer = squeue(programs, "yes 'squeue: error: x' | head -n 200000 >&2; echo fine; exit 1")
    assert (answer.text, answer.trouble) == ("fine\n", commands.Trouble(Kind.REFUSED, "squeue: error: x", "squeue"))


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("slurm_load_jobs error: Invalid job id specified", Kind.UNKNOWN_JOB),
        ("srun: error: Unable to confirm allocation for job 7: Invalid job id specified", Kind.UNKNOWN_JOB),
        ("slurm_load_jobs error: Unable to contact slurm controller (connect failure)", Kind.CONTROLLER_SILENT),
        ("slurm_load_jobs error: Socket timed out on send/recv operation", Kind.CONTROLLER_SILENT),
        ("squeue: fatal: Could not establish a configuration source", Kind.CONTROLLER_SILENT),
        ("sacct: error: Problem talking to the database: Connection refused", Kind.ACCOUNTING_SILENT),
        ("Slurm accounting storage is disabled", Kind.ACCOUNTING_DISABLED),
        ("sacct: unrecognized option '--array'", Kind.UNKNOWN_OPTION),
        ('sacct: fatal: Invalid field requested: "Reason"', Kind.UNKNOWN_OPTION),
        ("slurm_load_jobs error: Access/permission denied", Kind.REFUSED),
        ("", Kind.REFUSED),
    ],
)
def test_kinds_of_trouble(said: str, kind: Kind) -> None:
    trouble = trouble_of("squeue", f"{said}\n", 1)
    assert trouble is not None
    assert trouble.kind is kind
    assert trouble.message == (said or "exit status 1")
    assert trouble.silent == (kind in (Kind.CONTROLLER_SILENT, Kind.ACCOUNTING_SILENT))


def test_success_with_a_remark_is_a_success() -> None:
    assert trouble_of("sacct", "sacct: warning: unrecognized option in slurm.conf\n", 0) is None


@pytest.mark.parametrize(
    "argv",
    [
        ("scancel", "1"),
        ("sbatch", "run.sh"),
        ("scontrol", "requeue", "1"),
        ("scontrol", "--oneliner", "show", "job", "1; reboot"),
        ("scontrol", "--oneliner", "update", "job", "1"),
        ("squeue", "--noheader", "--states=all", "--jobs=1 --clusters=x", "--format=%i"),
        (*SQUEUE, "--iterate=1"),
        ("sinfo", "--noheader", "--Node", "--nodes=-x", "--format=%N"),
        ("srun", "--overlap", "--jobid=1", "sh", "-c", "rm -rf /"),
        ("sh", "-c", "squeue"),
        (),
    ],
)
def test_anything_else_is_refused_before_it_starts(argv: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands.subprocess, "Popen", lambda *_, **__: pytest.fail("started"))
    assert not allowed(argv)
    with pytest.raises(ValueError, match="not an allowed query of SLURM"):
        run(Query(argv or ("",)))


STARTING_MODULES = {"subprocess", "multiprocessing", "pty", "concurrent.futures.process"}
STARTING_NAMES = {
    *("system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "startfile"),
    *("create_subprocess_exec", "create_subprocess_shell", "subprocess_exec", "subprocess_shell"),
    *("ProcessPoolExecutor", "Popen"),
    *(f"{verb}{end}" for verb in ("exec", "spawn") for end in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
}


def starting(source: str) -> set[str]:
    """The names in a module by which it could start a process."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names} & STARTING_MODULES
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{name.name}" for name in node.names} | {node.module or ""}
            found |= (names & STARTING_MODULES) | ({name.name for name in node.names} & STARTING_NAMES)
        elif isinstance(node, ast.Attribute) and node.attr in STARTING_NAMES:
            found.add(node.attr)
    return found


def test_the_test_over_the_source_sees_what_it_looks_for() -> None:
    for line in ("import subprocess", "from os import system", "os.execvp('a', [])", "import multiprocessing as m"):
        assert starting(line), line
    assert not starting("import os\nos.read(0, 1)")


def test_no_other_module_of_the_readers_starts_a_process() -> None:
    modules = [path for part in READERS for path in (PACKAGE / part).rglob("*.py")]
    assert len(modules) > 20
    found = {path.relative_to(PACKAGE).as_posix() for path in modules if starting(path.read_text())}
    assert found == STARTERS
    for name in STARTERS - {"slurm/commands.py"}:
        started = re.findall(r"\[\s*sys\.executable, \"-m\", ([^\],]+)", (PACKAGE / name).read_text())
        assert started, f"{name} may start nothing but a module of this package"
        assert set(started) <= {'"prl.cli.dashboard"', "__name__"}
