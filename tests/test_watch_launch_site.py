"""What the host of a launch says of starting the run again: real files and a real port."""

import dataclasses
import os
import socket
from pathlib import Path

import pytest

from made_up_facts import facts
from prl.rundir.jobs import read_jobs
from prl.watch.facts import Facts
from prl.watch.launch_site import LaunchSite, look
from prl.watch.surroundings import Launch


def site(root: Path, **launch: object) -> LaunchSite:
    known = facts()
    told = Launch(**{"command": "rl @ rl.toml", "command_source": "configs/attempt_1/command.txt", **launch})  # type: ignore[arg-type]
    run = dataclasses.replace(known.run, dir=str(root))
    return look(dataclasses.replace(known, run=run, launch=told, host="node-0"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    configs = tmp_path / "run/configs/attempt_1"
    configs.mkdir(parents=True)
    (configs / "rl.toml").write_text("max_steps = 40\n")
    (tmp_path / "project").mkdir()
    (tmp_path / "project/rl.toml").write_text("max_steps = 40\n")
    return tmp_path / "run"


def test_everything_is_there(root: Path, tmp_path: Path) -> None:
    found = site(root, cwd=str(tmp_path / "project"), interpreter="/usr/bin/env", host="node-0")
    assert found == LaunchSite(looked=True)


def test_what_is_missing_or_has_changed(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "project/rl.toml"
    file.write_text("max_steps = 50\n")
    assert site(root, cwd=str(tmp_path / "project")).changed == [str(file)]
    file.unlink()
    found = site(root, cwd=str(tmp_path / "project"), interpreter=str(tmp_path / "venv/bin/python"))
    assert found.missing == [str(tmp_path / "venv/bin/python"), str(file)]
    assert site(root, cwd=str(tmp_path / "gone")).missing[0] == str(tmp_path / "gone")
    os.mkfifo(file)
    assert site(root, cwd=str(tmp_path / "project")).changed == []  # a pipe is not opened


def test_what_files_say_against_a_resume(root: Path) -> None:
    (root / "configs/attempt_1/rl.toml").write_text('clean = true\n[resume]\ndir = "runs/x/step_4"\n')
    found = site(root)
    assert (found.cleans, found.forks) == (True, True)
    (root / "configs/attempt_1/rl.toml").write_text("# @ a.toml\n[a]\n# @ b.toml\n[a]\n")  # two files in one
    assert site(root).cleans is False


def test_another_host_is_not_looked_at(root: Path, tmp_path: Path) -> None:
    found = site(root, cwd=str(tmp_path / "gone"), host="gpu-7", ports=[1])
    assert found == LaunchSite(run_id=read_jobs(root).run_id)


def test_a_port_that_is_listened_on(root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert list(site(root, ports=[port]).listening) == [port]
        assert f"process {os.getpid()} (" in site(root, ports=[port]).listening[port]
    assert site(root, ports=[port]).listening == {}


def test_facts_without_a_launch(root: Path) -> None:
    known: Facts = facts()
    assert look(dataclasses.replace(known, run=dataclasses.replace(known.run, dir=str(root)))) == LaunchSite()
