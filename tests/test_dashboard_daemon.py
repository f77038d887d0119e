"""One dashboard a host: real processes, found, started, shared and stopped."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from prl.dashboard import daemon, registry
from prl.synth import RunShape, write_run

DEADLINE = 30.0


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_port: int) -> Iterator[Path]:
    """A home of its own, so that no dashboard of whoever runs the tests is found or ended."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PRL_CACHE_DIR", str(tmp_path / "cache"))
    yield tmp_path
    daemon.stop()


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {DEADLINE:.0f} s"
        time.sleep(0.02)


def ask(url: str, path: str) -> dict[str, object]:
    with urllib.request.urlopen(url.replace("localhost", "127.0.0.1") + path, timeout=10) as response:
        said: dict[str, object] = json.load(response)
        return said


def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "prl.cli.dashboard", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | environment,
    )


@contextlib.contextmanager
def serving(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A dashboard in the foreground, killed at the end where it did not end before."""
    with start(*arguments) as process:
        try:
            yield process
        finally:
            process.kill()


def said_address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("Dashboard: "):
            return line.removeprefix("Dashboard: ").strip()
    raise AssertionError("ended without an address")


def write_small_run(path: Path) -> Path:
    return write_run(path, RunShape(steps=2, rollouts=8, eval_interval=0))


def test_a_launcher_starts_one_and_the_next_finds_it(home: Path) -> None:
    first, second = home / "a", home / "b"
    write_small_run(first / "one")
    write_small_run(second / "two")
    found = daemon.ensure(first)
    assert found.started
    again = daemon.ensure(second)
    assert (again.url, again.started) == (found.url, False)

    def names() -> set[str]:
        rows = ask(found.url, "/api/v1/runs")["rows"]
        assert isinstance(rows, list)
        return {row["name"] for row in rows}

    until(lambda: names() == {"one", "two"}, "the second directory is served as well")
    title = Path(f"/proc/{registry.read_entry(registry.own_entry()).pid}/cmdline").read_bytes()  # type: ignore[union-attr]
    assert title.startswith(b"PRL::Dashboard")


def test_two_launchers_at_once_start_one(home: Path) -> None:
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(daemon.ensure, [home / "a", home / "b", home / "c"]))
    assert len({one.url for one in found}) == 1
    entry = daemon.running()
    assert entry is not None and entry.url == found[0].url


def test_a_killed_one_is_replaced(home: Path) -> None:
    daemon.ensure(home)
    entry = daemon.running()
    assert entry is not None
    os.kill(entry.pid, signal.SIGKILL)
    until(lambda: not entry.alive(), "it is dead")
    found = daemon.ensure(home)
    assert found.started
    replaced = daemon.running()
    assert replaced is not None and replaced.pid != entry.pid


def test_beside_another_projects_dashboard_ours_takes_the_next_port(home: Path) -> None:
    """The holder of daemon.json answers and is not ours: it keeps the file, and is given the directory as well."""
    with socket.socket() as foreign:
        foreign.bind(("127.0.0.1", 0))
        foreign.listen()
        port = foreign.getsockname()[1]
        registry.shared_root().mkdir(parents=True)
        held = {"pid": os.getpid(), "url": f"http://localhost:{port}", "started": time.time()}
        registry.shared_entry().write_text(json.dumps(held))
        (home / "outputs").mkdir()
        found = daemon.ensure(home / "outputs")
        assert found.url != held["url"] and str(port) in found.notes[0]
        assert json.loads(registry.shared_entry().read_text()) == held
        entry = registry.read_entry(registry.own_entry())
        assert entry is not None and entry.url == found.url
        assert str(home / "outputs") in (registry.shared_root() / "dirs.json").read_text()


def test_a_taken_port_moves_to_the_next(free_port: int) -> None:
    with daemon.bind("127.0.0.1", free_port) as first, daemon.bind("127.0.0.1", free_port) as second:
        assert first.getsockname()[1] == free_port < second.getsockname()[1]


def test_only_a_taken_port_moves() -> None:
    """An address that is not this host's is said at once, with the port that was asked for."""
    with pytest.raises(daemon.DashboardError, match="port 7788"):
        daemon.bind("203.0.113.5", 7788)


@pytest.mark.parametrize("host", ["::1", ""])
def test_the_address_is_one_that_leads_there(home: Path, host: str) -> None:
    """``localhost`` is the other loopback first on many hosts; all interfaces have no name of their own."""
    with daemon.bind("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        name = "[::1]" if host else registry.this_host()
        assert daemon.url_of(bound, host) == f"http://{name}:{port}"


def test_small_answers_are_not_held_back() -> None:
    """asyncio turns Nagle's algorithm off for connections of a listening socket that names its protocol."""
    with daemon.bind("127.0.0.1", 0) as bound:
        assert bound.proto == socket.IPPROTO_TCP


def test_no_port_at_all_is_said() -> None:
    with daemon.bind("127.0.0.1", 0) as taken, pytest.raises(daemon.DashboardError, match="cannot listen"):
        daemon.bind("127.0.0.1", taken.getsockname()[1], tried=1)


def test_the_command_serves_and_ends_cleanly(home: Path, free_port: int) -> None:
    write_small_run(home / "outputs" / "one")
    with serving(str(home / "outputs"), "--port", str(free_port)) as process:
        url = said_address(process)
        assert url == f"http://localhost:{free_port}"
        assert ask(url, "/api/health")["pid"] == process.pid
        second = start(str(home))
        out, _ = second.communicate(timeout=DEADLINE)
        assert second.returncode == 0 and url in out
        status = start("--status", "--json")
        answer = json.loads(status.communicate(timeout=DEADLINE)[0])
        assert status.returncode == 0 and answer["ok"] and answer["url"] == url
        assert answer["rows"] == [str(home / "outputs"), str(home)]
        stop = start("--stop")
        assert url in stop.communicate(timeout=DEADLINE)[0] and stop.returncode == 0
        process.wait(timeout=DEADLINE)
    assert not registry.shared_entry().exists() and not registry.own_entry().exists()
    status = start("--status")
    assert "No dashboard runs" in status.communicate(timeout=DEADLINE)[0] and status.returncode == 3


def test_an_isolated_one_is_found_by_nobody(home: Path, free_port: int) -> None:
    with serving(str(home), "--isolated", "--port", str(free_port)) as process:
        assert ask(said_address(process), "/api/health")["dirs"] == [str(home)]
        assert daemon.running() is None and not (registry.shared_root() / "dirs.json").exists()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=DEADLINE) in (0, 130, -signal.SIGINT)


def test_beyond_loopback_a_token_is_needed(home: Path, free_port: int) -> None:
    with serving(str(home), "--host", "0.0.0.0", "--port", str(free_port)) as process:
        url, _, token = said_address(process).partition("/?token=")
        assert len(token) >= 24 and url == f"http://{registry.this_host()}:{free_port}"

        def status(host: str, sent: str = "") -> int:
            request = urllib.request.Request(f"http://127.0.0.1:{free_port}/api/v1/runs", headers={"Host": host})
            request.add_header("Authorization", sent)
            try:
                with urllib.request.urlopen(request, timeout=10) as response:
                    return int(response.status)
            except urllib.error.HTTPError as refused:
                return refused.code

        own = url.removeprefix("http://")
        assert (status(own), status(own, "Bearer x")) == (401, 401)
        # The name that was printed is one of the server's own.
        assert status(own, f"Bearer {token}") == status("127.0.0.1", f"Bearer {token}") == 200
        assert status("evil.example", f"Bearer {token}") == 403
        # Launchers of this user find it, and nobody gets the token by the contract's file.
        found = daemon.ensure(home / "more")
        assert (found.url, found.started) == (url, False)
        assert not registry.shared_entry().exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_one_that_is_ended_takes_itself_out(home: Path, free_port: int, number: signal.Signals) -> None:
    """By a scheduler, or by the terminal that was closed: as by Ctrl-C."""
    with serving(str(home), "--port", str(free_port)) as process:
        said_address(process)
        assert registry.shared_entry().exists()
        process.send_signal(number)
        assert process.wait(timeout=DEADLINE) in (0, 128 + number)
    assert not registry.shared_entry().exists() and not registry.own_entry().exists()


def test_a_header_without_end_is_not_taken_into_memory(home: Path, free_port: int) -> None:
    with serving(str(home), "--isolated", "--port", str(free_port)) as process:
        said_address(process)
        with socket.create_connection(("127.0.0.1", free_port), timeout=DEADLINE) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
            with pytest.raises(OSError):  # closed: nothing of this length is waited for
                for _ in range(1000):
                    client.sendall(b"x" * 65536)


def test_a_first_look_needs_no_run(home: Path, free_port: int) -> None:
    with serving("--demo", "--port", str(free_port)) as process:
        url = said_address(process)

        def rows() -> list[dict[str, object]]:
            found = ask(url, "/api/v1/runs")["rows"]
            assert isinstance(found, list)
            return found

        until(lambda: {"live", "warm-up", "baseline-eval"} <= {row["name"] for row in rows()}, "all kinds of run")
        live = next(row for row in rows() if row["name"] == "live")
        directory = Path(str(live["path"])).parent
        until(lambda: ask(url, f"/api/v1/runs/{live['id']}/live")["rows"], "rollouts are in flight")
        process.send_signal(signal.SIGINT)
        process.wait(timeout=DEADLINE)
        assert not directory.exists()
