"""``prl doctor``: whether a machine is ready to run."""

import json
import os
import platform
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from prl.cli import machine
from prl.cli.doctor import doctor
from prl.cli.machine import PROBLEM, READY, UNKNOWN, WARNING
from prl.launch import ports as launch_ports
from prl.launch.ports import Ports
from prl.slurm.commands import Kind, Query
from slurm_answers import Recorded, failed, squeue

GOLDEN = Path(__file__).parent / "golden" / "doctor.json"
"""``PRL_UPDATE_GOLDEN=1`` writes the answer anew: read the difference."""
GIB = 1024**3


@pytest.fixture(autouse=True)
def a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One without SLURM, with half of a small disk free and ports that nobody has."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(os, "statvfs", lambda _: room(50))
    free = [free_port() for _ in range(3)]
    monkeypatch.setattr(launch_ports, "default_ports", lambda offset=0: Ports(*(port + offset for port in free)))


def room(free: int) -> SimpleNamespace:
    return SimpleNamespace(f_bavail=free, f_blocks=100, f_frsize=GIB)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken


def call(*args: object) -> tuple[int, str]:
    result = CliRunner().invoke(doctor, [str(arg) for arg in args], standalone_mode=False)
    assert result.exception is None, result.exception
    return result.return_value, result.stdout


def test_answer_is_as_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_ports, "default_ports", lambda offset=0: Ports(8000, 8100, 5555))
    monkeypatch.setattr(launch_ports, "taken_ports", lambda ports: [])
    monkeypatch.setattr("time.time", lambda: 1_790_000_100.0)
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(nodename="node-1"))
    monkeypatch.setattr(platform, "python_version", lambda: "3.11.7")
    monkeypatch.setattr(os, "statvfs", lambda _: room(4))
    code, text = call("--json", "--output-dir", tmp_path / "runs")
    text = json.dumps(json.loads(text), indent=1).replace(str(tmp_path), "/data") + "\n"
    if os.environ.get("PRL_UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert (code, text) == (1, GOLDEN.read_text())


@pytest.mark.parametrize(
    ("states", "code"),
    [((READY, READY), 0), ((READY, WARNING), 1), ((WARNING, UNKNOWN), 3), ((UNKNOWN, PROBLEM, WARNING), 2)],
)
def test_the_worst_state_is_the_exit_status(
    states: tuple[str, ...], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = [machine.Check("disk", state, "so it is", "mend it") for state in states]
    monkeypatch.setattr("prl.cli.doctor.examine", lambda *_: checks)
    assert call()[0] == code
    assert (call("--json")[0], json.loads(call("--json")[1])["ok"]) == (code, code == 0)


def test_a_ready_machine_says_so_in_a_line_for_each_check(tmp_path: Path) -> None:
    code, text = call("--output-dir", tmp_path)
    assert code == 0
    assert [line.split()[:2] for line in text.splitlines() if line[0] != " "] == [
        [name, READY] for name in ("packages", "ports", "disk", "slurm")
    ]


def test_a_package_that_is_not_there_is_a_problem_with_the_line_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    real = machine.find_spec
    monkeypatch.setattr(machine, "find_spec", lambda name: None if name == "torch" else real(name))
    found = machine.packages()
    assert (found.state, found.message) == (PROBLEM, "not installed: torch")
    assert found.action is not None
    assert "pip install" in found.action


@pytest.mark.parametrize(("installed", "state"), [("0.4.0", READY), ("0.4.0+local", READY), ("0.4.1", WARNING)])
def test_what_is_pinned_has_that_version(installed: str, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A minor release of what is pinned has changed a record before; a build's name is no version."""
    monkeypatch.setattr(machine, "requires", lambda _: ["verifiers==0.4.0; extra == 'train'", "zmq>=27; extra == 'x'"])
    monkeypatch.setattr(machine, "version", lambda _: installed)
    assert machine.packages().state == state


def test_ports_that_somebody_listens_on_are_passed_over(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, free = listener.getsockname()[1], free_port()
    monkeypatch.setattr(
        launch_ports, "default_ports", lambda offset=0: Ports(free if offset else taken, free + 1, free + 2)
    )
    found = machine.ports()
    assert (found.state, found.message.split(" ", 1)[0]) == (READY, str(taken))
    assert f"moves to {free} (inference)" in found.message


def test_no_free_set_of_ports_is_a_problem(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = listener.getsockname()[1]
    monkeypatch.setattr(launch_ports, "default_ports", lambda offset=0: Ports(taken, taken, taken))
    assert machine.ports().state == PROBLEM


@pytest.mark.parametrize(("free", "state"), [(50, READY), (4, WARNING), (0, PROBLEM)])
def test_room_on_the_disk(free: int, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short is a share of the disk, as for the rule about the disk; too little is too little for one checkpoint."""
    monkeypatch.setattr(os, "statvfs", lambda _: room(free))
    found = machine.disk(tmp_path / "not" / "yet", low=0.05)
    assert (found.state, str(tmp_path) in found.message) == (state, True)


def test_where_nothing_can_be_written_no_run_starts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert machine.disk(tmp_path / "file" / "runs", low=0.05).state == PROBLEM


@pytest.mark.parametrize(
    ("programs", "answer", "state"),
    [
        ((), None, READY),
        (("squeue",), None, WARNING),
        (("squeue", "sbatch"), lambda query: squeue(query, {"i": "7"}), READY),
        (("squeue", "sbatch"), lambda _: failed("squeue", Kind.CONTROLLER_SILENT), UNKNOWN),
        (("squeue", "sbatch"), lambda _: failed("squeue", Kind.REFUSED, "Invalid user"), WARNING),
    ],
)
def test_slurm(programs: tuple[str, ...], answer: Callable[[Query], Any] | None, state: str, tmp_path: Path) -> None:
    """Without SLURM runs are local, which is fine; a controller that is silent now may answer later."""
    (tmp_path / "bin").mkdir()
    for name in programs:
        (tmp_path / "bin" / name).touch(mode=0o755)
    asked = Recorded(**({"squeue": answer} if answer is not None else {}))
    assert machine.slurm(asked).state == state
    assert asked.asked == (["squeue"] if answer is not None else [])
