"""A real SLURM cluster on one machine: a controller and three nodes on loopback, everything below one directory.

Each node is a ``slurmd`` of its own and shares this machine's file system, as nodes on a cluster share a network disk.
CPUs are oversubscribed: a job gets the nodes it asks for, not speed. There is no accounting (``slurmdbd``), as on many
clusters. A requeued job starts again after 6 s (``cred_expire``, which may not be less) where SLURM's default is two
minutes.
"""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from real_run import wait_for

PROGRAMS = ("munged", "slurmctld", "slurmd", "squeue", "sbatch", "scancel", "scontrol", "sinfo", "srun")
NODES = ("n1", "n2", "n3")
DEADLINE = 30.0
"""Seconds for anything that is waited for."""

_CONF = """
ClusterName=mini
SlurmctldHost=localhost
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.sock,cred_expire=5
MessageTimeout=2
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
ReturnToService=2
KillWait=1
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PartitionName=cluster Nodes={nodes} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


class MiniSlurm:
    """The running cluster. Jobs write below ``work``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.work = directory / "work"
        self.conf = directory / "slurm.conf"
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._environment = {**os.environ, "SLURM_CONF": str(self.conf), "LC_ALL": "C"}

    def start(self) -> None:
        ports = _free_ports(1 + len(NODES))
        nodes = "".join(
            f"NodeName={name} NodeHostname=localhost Port={port} CPUs=4 RealMemory=4000 State=UNKNOWN\n"
            for name, port in zip(NODES, ports[1:], strict=True)
        )
        for name in ("state", "work", *(f"spool-{node}" for node in NODES)):
            (self.directory / name).mkdir()
        conf = _CONF.format(port=ports[0], directory=self.directory, nodes=",".join(NODES))
        self.conf.write_text(nodes + conf)
        key = self.directory / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(1024))
        own = {name: f"--{name}-file={self.directory}/munged.{name}" for name in ("pid", "log", "seed")}
        sock = self.directory / "munge.sock"
        self._start("munged", "--foreground", "--force", f"--socket={sock}", f"--key-file={key}", *own.values())
        wait_for(sock.exists, "munged", DEADLINE)
        self._start("slurmctld", "-D", "-f", str(self.conf))
        for node in NODES:
            self._start("slurmd", "-D", "-N", node, "-f", str(self.conf), name=node)
        self.wait_idle()

    def wait_idle(self) -> None:
        """Until all nodes are free."""
        wait_for(lambda: self.ask("sinfo", "-h", "-o", "%T %D", check=False) == "idle 3", "idle nodes", DEADLINE)

    def ask(self, *argv: str, check: bool = True) -> str:
        """Run one of SLURM's programs against this cluster; its output without the last newline."""
        done = subprocess.run(
            argv, env=self._environment, cwd=self.work, capture_output=True, text=True, timeout=30, check=False
        )
        assert not check or done.returncode == 0, f"{argv}: {done.stderr}"
        return done.stdout.rstrip("\n")

    def submit(self, script: str, *options: str) -> str:
        """Submit a batch job; its id."""
        return self.ask("sbatch", "--parsable", *options, "--wrap", script)

    def clear(self) -> None:
        """Cancel all jobs and wait until the nodes are free."""
        self.ask("scancel", "--user=root")
        self.wait_idle()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """The controller is there and does not answer."""
        controller = self._daemons["slurmctld"]
        controller.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            controller.send_signal(signal.SIGCONT)
            wait_for(lambda: self.ask("scontrol", "ping", check=False).count("UP"), "the controller", DEADLINE)

    @contextmanager
    def away(self) -> Iterator[None]:
        """The controller is stopped, and started again at the end."""
        self._end("slurmctld")
        try:
            yield
        finally:
            self._start("slurmctld", "-D", "-f", str(self.conf))
            wait_for(lambda: self.ask("scontrol", "ping", check=False).count("UP"), "the controller", DEADLINE)

    def lose(self, node: str) -> None:
        """A node vanishes with everything on it, and the controller is told at once that it is down."""
        self._end(node, signal.SIGKILL)
        self.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=lost | power")

    def stop(self) -> None:
        """End every process of the cluster, the jobs' too."""
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            if "slurmctld" in self._daemons:
                self.clear()
        for name in reversed(self._daemons.copy()):
            self._end(name)
        # What a node's daemon leaves behind when it goes before its jobs.
        left = [process for process in psutil.process_iter() if self._is_ours(process)]
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=10)

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return process.pid != os.getpid() and process.environ().get("SLURM_CONF") == str(self.conf)
        except psutil.Error:
            return False

    def restore(self, node: str) -> None:
        """Start a lost node again."""
        self._start("slurmd", "-D", "-N", node, "-f", str(self.conf), name=node)
        self.wait_idle()

    def _start(self, *argv: str, name: str | None = None) -> None:
        name = name or argv[0]
        with (self.directory / f"{name}.out").open("ab") as log:
            self._daemons[name] = subprocess.Popen(
                argv, env=self._environment, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _end(self, name: str, signum: int = signal.SIGTERM) -> None:
        process = self._daemons.pop(name)
        process.send_signal(signal.SIGCONT)
        process.send_signal(signum)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def mini_slurm(directory: Path) -> Iterator[MiniSlurm]:
    """A cluster below ``directory`` (a short path: it holds a socket), stopped at the end whatever happens."""
    cluster = MiniSlurm(directory)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
