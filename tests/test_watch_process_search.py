"""The processes of runs of which no launcher speaks, and what lives below a component: with real processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from prl.rundir.locate import locate
from prl.watch import gather, proctable
from prl.watch.facts import Process, ProcessSearch
from prl.watch.process_search import find_processes, search_result
from prl.watch.processes import expected_ranks
from prl.watch.proctable import Entry, ProcessTable, read_table
from sample_runs import SampleRun

WAIT = "import sys; sys.stdout.write('up'); sys.stdout.flush(); sys.stdin.read()"
PARENT = f"import subprocess; subprocess.run([{sys.executable!r}, '-c', {WAIT!r}, 'spawn_main'])"
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts programs under any name; they are up when this returns, and ended with all their children afterwards."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(name: str, *arguments: str, code: str = WAIT, cwd: Path | None = None) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [name, "-c", code, *arguments],
            executable=sys.executable,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=cwd,
        )
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.read(2) == b"up"
        return process

    yield begin
    for process in running:
        for child in psutil.Process(process.pid).children(recursive=True) if process.poll() is None else ():
            child.kill()
        process.kill()
        process.communicate()


def search(run: SampleRun) -> tuple[list[Process], ProcessSearch]:
    files = locate(run.root)
    found = find_processes(files, read_table(), [], 5.0)
    return found, search_result(files, found)


def test_by_argument_open_file_and_directory(tmp_path: Path, start: Start) -> None:
    run = SampleRun(tmp_path)
    log = run.log("orchestrator")
    trainer = start("torchrun", "--nproc-per-node=4", f"--log-dir={run.logs}", "@", f"{run.resolved}/trainer.json")
    held = start("PRL::Orchestrator", code=f"held = open({str(log)!r}, 'a'); {WAIT}")
    server = start("env-server", "@", "configs/attempt_1/resolved/envs/train/reverse-text.json", cwd=run.root)
    inside = start("PRIME-RL::Inference", cwd=run.root)
    found, result = search(run)
    assert {one.name: (one.pid, one.state) for one in found} == {
        "trainer": (trainer.pid, "alive"),
        "orchestrator": (held.pid, "alive"),
        "train env server reverse-text": (server.pid, "alive"),
        "inference": (inside.pid, "alive"),
    }
    by_name = {one.name: one for one in found}
    assert by_name["trainer"].expected == 4
    assert by_name["orchestrator"].log == "logs/attempt_1/orchestrator.log"
    assert by_name["orchestrator"].source == "process table: its open file logs/attempt_1/orchestrator.log"
    assert by_name["inference"].source == "process table: its working directory ."
    assert (result.found, result.missing, result.hidden) == (4, [], False)


def test_neither_a_name_nor_a_path_alone(tmp_path: Path, start: Start) -> None:
    run = SampleRun(tmp_path)
    beside = tmp_path / f"{run.name}-2"
    beside.mkdir()
    start("PRL::Trainer", cwd=tmp_path)
    start("torchrun", "@", f"{beside}/configs/attempt_1/resolved/trainer.json")
    start("tail", "-f", f"{run.logs}/trainer.log")
    start("vim", cwd=run.root)
    start("PRL::Dashboard", cwd=run.root)
    assert search(run)[0] == []


def test_ranks_and_workers_are_members_and_a_launcher_is_the_parent(tmp_path: Path, start: Start) -> None:
    run = SampleRun(tmp_path)
    config = f"{run.resolved}/envs/train/reverse-text.json"
    arguments = ["env-server", "-c", PARENT, "@", config]
    parent = start(
        "PRL::Launcher", code=f"import subprocess; subprocess.run({arguments!r}, executable={sys.executable!r})"
    )
    found, _ = search(run)
    launcher, server = found
    assert (launcher.name, launcher.pid) == ("launcher", parent.pid)
    assert server.name == "train env server reverse-text"
    assert [(member.kind, member.state) for member in server.members] == [("worker", "alive")]
    os.kill(server.members[0].pid, signal.SIGSTOP)
    deadline = time.monotonic() + 10
    while not (stopped := search(run)[0][1].stopped) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert stopped == [server.members[0].pid]


def test_a_missing_component_is_told_where_others_live(tmp_path: Path, start: Start) -> None:
    run = SampleRun(tmp_path)
    run.log("trainer", "x")
    run.log("envs/train/reverse-text", "x")
    assert search(run)[1].missing == []  # nothing was found at all: the run may live elsewhere
    start("orchestrator", "@", f"{run.resolved}/orchestrator.json")
    assert search(run)[1].missing == ["trainer", "train env server reverse-text"]
    facts = gather(run.root)
    assert [process.name for process in facts.processes] == ["orchestrator"]
    assert facts.search is not None
    assert facts.launched


def test_an_orphan_of_an_earlier_attempt_says_so(tmp_path: Path, start: Start) -> None:
    SampleRun(tmp_path, attempt=1)
    run = SampleRun(tmp_path, attempt=2)
    start("inference", "@", str(run.layout.attempt_configs(1) / "resolved/inference.json"))
    assert [one.name for one in search(run)[0]] == ["inference of attempt 1"]


@pytest.mark.parametrize(
    ("arguments", "ranks"),
    [
        (("torchrun", "--nproc-per-node=8", "-m", "x"), 8),
        (("python", "/v/bin/torchrun", "--nproc_per_node", "2"), 2),
        (("torchrun", "--nproc-per-node=gpu"), None),
        (("torchrun", "--nproc-per-node"), None),
        (("trainer",), None),
    ],
)
def test_expected_ranks(arguments: tuple[str, ...], ranks: int | None) -> None:
    assert expected_ranks(Entry(1, 0, "alive", 0.0, arguments)) == ranks


def test_the_table_knows_this_process_and_its_family() -> None:
    table = read_table()
    me = table.entries[os.getpid()]
    assert abs(me.started - psutil.Process().create_time()) < 1.0
    assert me.parent in [entry.pid for entry in table.ancestors(os.getpid())] or me.parent == 0
    assert proctable.working_directory(os.getpid()) == str(Path.cwd())


def test_a_circle_of_parents_ends() -> None:
    entries = {pid: Entry(pid, 3 - pid, "alive", 0.0, ()) for pid in (1, 2)}
    table = ProcessTable(entries)
    assert [entry.pid for entry in table.descendants(1)] == [2]
    assert [entry.pid for entry in table.ancestors(1)] == [2]


def test_the_environment_a_process_was_started_with() -> None:
    # A child, since a test process that was given a title has none that others could read.
    with subprocess.Popen([sys.executable, "-c", "input()"], env={"MARK": "here"}, stdin=subprocess.PIPE) as child:
        try:
            assert proctable.environment(child.pid)["MARK"] == "here"
        finally:
            child.kill()
