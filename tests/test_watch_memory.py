"""Memory of the host and of the control group that a process is in."""

import os
from pathlib import Path

import pytest

from prl.watch.memory import memory_facts

GIB = 1024**3


class Host:
    """Files as the kernel shows them."""

    def __init__(self, root: Path, group: str) -> None:
        self.proc, self.groups = root / "proc", root / "cgroup"
        self.write(self.proc / "meminfo", "MemTotal:  1048576 kB\nMemFree:  1 kB\nMemAvailable:  524288 kB\n")
        self.write(self.proc / "7/cgroup", group)

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def second(self, name: str, **files: str) -> None:
        self.write(self.groups / "cgroup.controllers", "cpu memory\n")
        for file, text in files.items():
            self.write(self.groups / name / file.replace("_", ".", 1), text)


def test_the_narrowest_of_nested_groups(tmp_path: Path) -> None:
    host = Host(tmp_path, "0::/system.slice/job_42/step_0/task_0\n")
    host.second(
        "system.slice/job_42", memory_max=f"{GIB // 4}\n", memory_current="1000\n", memory_events="oom 9\noom_kill 2\n"
    )
    host.second("system.slice/job_42/step_0", memory_max="max\n")
    host.second("system.slice/job_42/step_0/task_0", memory_max="max\n", memory_current="10\n")
    found = memory_facts(7, host.proc, host.groups)
    assert found is not None
    assert (found.total, found.available) == (GIB, GIB // 2)
    assert (found.limit, found.used, found.oom_kills) == (GIB // 4, 1000, 2)
    assert found.source.endswith("system.slice/job_42")


def test_a_group_without_a_limit_counts_kills_all_the_same(tmp_path: Path) -> None:
    host = Host(tmp_path, "0::/user.slice\n")
    host.second("user.slice", memory_max="max\n", memory_current="10\n", memory_events="oom_kill 1\n")
    found = memory_facts(7, host.proc, host.groups)
    assert found is not None
    assert (found.limit, found.used, found.oom_kills) == (None, 10, 1)


def test_groups_of_the_first_version(tmp_path: Path) -> None:
    host = Host(tmp_path, "12:pids:/x\n5:cpu,memory:/slurm/job_42\n0::/y\n")
    for name, text in {"limit_in_bytes": "5000", "usage_in_bytes": "4000"}.items():
        host.write(host.groups / f"memory/slurm/job_42/memory.{name}", text)
    host.write(host.groups / "memory/memory.limit_in_bytes", str(2**63 - 4096))
    host.write(host.groups / "memory/slurm/job_42/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    found = memory_facts(7, host.proc, host.groups)
    assert found is not None
    assert (found.limit, found.used, found.oom_kills) == (5000, 4000, 3)


@pytest.mark.parametrize("group", ["", "0::/\n", "nonsense", "0::/../../etc\n"])
def test_without_a_group_the_host_alone(tmp_path: Path, group: str) -> None:
    found = memory_facts(7, Host(tmp_path, group).proc, tmp_path / "cgroup")
    assert found is not None
    assert (found.total, found.limit, found.oom_kills) == (GIB, None, None)


def test_this_host() -> None:
    found = memory_facts(os.getpid())
    assert found is None or 0 < found.available <= found.total
    assert memory_facts(os.getpid(), Path("/nowhere")) is None
