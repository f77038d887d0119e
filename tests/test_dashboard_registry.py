"""The files by which dashboards and launchers find each other."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from prl.dashboard import registry
from prl.dashboard.registry import SERVICE, Entry


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def server() -> Iterator[int]:
    """The pid of a process that is titled like a dashboard."""
    with subprocess.Popen([sys.executable, "-c", "input()", "PRL::Dashboard"], stdin=subprocess.PIPE) as process:
        yield process.pid
        process.kill()


def mine(**fields: object) -> Entry:
    values: dict[str, object] = {"pid": os.getpid(), "url": "http://localhost:7788", "started": time.time()}
    return Entry(**(values | {"host": registry.this_host(), "service": SERVICE} | fields))  # type: ignore[arg-type]


def test_the_contracts_file_has_the_contracts_fields(home: Path) -> None:
    """prime-rl's launchers read ``pid`` and ``url`` of ~/.cache/prime-rl/dashboard/daemon.json."""
    entry = mine()
    assert registry.claim(entry)
    said = json.loads((home / ".cache/prime-rl/dashboard/daemon.json").read_text())
    assert (said["pid"], said["url"], said["started"]) == (entry.pid, entry.url, entry.started)
    assert registry.read_entry(registry.own_entry()) == entry
    registry.release(entry)
    assert not registry.shared_entry().exists() and not registry.own_entry().exists()


def test_a_living_holder_keeps_the_contracts_file() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        try:
            foreign = {"pid": other.pid, "url": "http://localhost:7788", "started": time.time()}
            registry.shared_root().mkdir(parents=True)
            registry.shared_entry().write_text(json.dumps(foreign))
            assert not registry.claim(mine())
            assert json.loads(registry.shared_entry().read_text()) == foreign
            own = registry.read_entry(registry.own_entry())
            assert own is not None and (own.pid, own.service) == (os.getpid(), SERVICE)
        finally:
            other.kill()


def test_a_directory_that_cannot_be_looked_at_hides_no_other(home: Path) -> None:
    """A name that no file system takes; a directory without permission and a stale handle are the same to it."""
    registry.register([home])
    registry.register([home / ("x" * 300), home])
    assert registry.served_dirs() == [home.resolve()]


def test_a_dead_holder_loses_it() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as other:
        pass
    registry.shared_root().mkdir(parents=True)
    registry.shared_entry().write_text(
        json.dumps({"pid": other.pid, "url": "http://localhost:1", "started": time.time()})
    )
    assert registry.claim(mine())


def test_a_pid_that_another_process_took_over_is_dead(server: int) -> None:
    """This process started long after the entry was written: it is not the one that wrote it."""
    assert not mine(pid=server, started=1000.0).alive()
    assert mine(pid=server).alive()


def test_a_process_that_is_no_dashboard_is_not_taken_for_one() -> None:
    """Containers with one home and one host name have the same pids; ``--stop`` must not end whatever has this one."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        try:
            assert not mine(pid=other.pid, started=time.time() + 60).alive()
            assert mine(pid=other.pid, service=None).alive()  # of the contract's others nothing more is known
        finally:
            other.kill()


def test_a_token_is_told_to_its_user_alone(home: Path, server: int) -> None:
    """By our own file, for the launchers: who finds a server by the contract's file could not ask it."""
    entry = mine(pid=server, token="c0ffee")
    assert not registry.claim(entry)
    assert not registry.shared_entry().exists()
    assert registry.own_entry().stat().st_mode & 0o077 == 0
    assert registry.read_entry(registry.own_entry()) == entry and "c0ffee" not in repr(entry)


def test_another_hosts_entry_says_nothing_here_and_is_left_alone() -> None:
    far = mine(host="another-host")
    assert far.elsewhere and not far.alive()
    registry.shared_root().mkdir(parents=True)
    registry.shared_entry().write_text(json.dumps({"pid": far.pid, "url": far.url, "started": 1.0, "host": far.host}))
    assert not registry.claim(mine(pid=os.getppid()))
    registry.release(far)
    assert registry.shared_entry().exists()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"pid": true, "url": "x"}', '{"pid": -1, "url": "x"}', '{"pid": 1}'])
def test_what_is_no_entry_is_none(home: Path, text: str) -> None:
    path = home / "daemon.json"
    path.write_text(text)
    assert registry.read_entry(path) is None


def test_directories_are_kept_once_and_deleted_ones_go(home: Path) -> None:
    here, gone = home / "outputs", home / "gone"
    here.mkdir()
    gone.mkdir()
    unmounted = home / "disk" / "outputs"
    registry.register([here, gone, here, unmounted])
    assert json.loads((registry.shared_root() / "dirs.json").read_text()) == [str(here), str(gone), str(unmounted)]
    gone.rmdir()
    registry.register([here])
    # What the directory lay in is there, so it was deleted; of the other nobody can tell.
    assert json.loads((registry.shared_root() / "dirs.json").read_text()) == [str(here), str(unmounted)]
    assert registry.served_dirs() == [here]


def test_a_list_that_is_none_is_made_anew(home: Path) -> None:
    registry.shared_root().mkdir(parents=True)
    (registry.shared_root() / "dirs.json").write_text('{"not": "a list"}')
    registry.register([home])
    assert registry.served_dirs() == [home]


def test_many_who_register_at_once_lose_nothing(home: Path) -> None:
    code = "import sys, pathlib, prl.dashboard.registry as r; r.register([pathlib.Path(sys.argv[1])])"
    paths = [home / f"outputs-{number}" for number in range(6)]
    for path in paths:
        path.mkdir()
    started = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for path in paths]
    assert [process.wait(timeout=60) for process in started] == [0] * len(paths)
    assert sorted(registry.served_dirs()) == paths
