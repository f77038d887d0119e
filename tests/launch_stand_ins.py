"""Stand-ins for a run's components, and a launcher over them: processes that do what a test says.

As a program: ``python launch_stand_ins.py component ROLE SCENARIO @ FILE`` is a component,
``python launch_stand_ins.py launcher SCENARIO`` a launcher whose components those are. A scenario is a JSON file::

    {"pids": <directory>, "config": {...}, "argv": [...], "kind": "rl", "events": <file>,
     "torchrun": false,
     "components": {"trainer": {"say": [lines], "wait_for": <path>, "raise": <text>, "exit": <status>,
                                "ignore_term": true, "child": true, "touch": [paths]}}}
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

SERVERS = ("inference", "env_server")
DEADLINE = 30.0


class StandIns:
    """A launcher over stand-ins, as a child process of the test."""

    def __init__(self, tmp_path: Path, **components: dict[str, Any]) -> None:
        self.root = tmp_path
        self.components = components
        self.pids = tmp_path / "pids"
        self.pids.mkdir()
        (tmp_path / "word_game.py").touch()
        source = {"env": {"taskset": {"id": "word-game"}}, "path": str(tmp_path)}
        self.process: subprocess.Popen[bytes] | None = None
        self.config: dict[str, Any] = {
            "output_dir": str(tmp_path / "outputs"),
            "run": {"name": "made-up"},
            "model": {"name": str(make_model(tmp_path / "model"))},
            "orchestrator": {"batch_size": 8, "train": {"source": [source]}},
            "max_steps": 5,
            "shutdown_timeout": 20.0,
        }
        self.argv = ["--run.name", "made-up"]
        self.kind = "rl"
        self.torchrun = False

    @property
    def run_dir(self) -> Path:
        return self.root / "outputs" / "made-up"

    def start(self) -> "StandIns":
        scenario = self.root / "scenario.json"
        scenario.write_text(
            json.dumps(
                {
                    "pids": str(self.pids),
                    "config": self.config,
                    "argv": self.argv,
                    "kind": self.kind,
                    "torchrun": self.torchrun,
                    "events": str(self.root / "events.jsonl"),
                    "components": self.components,
                }
            )
        )
        command = [sys.executable, __file__, "launcher", str(scenario)]
        with (self.root / "launcher.out").open("ab") as output:
            self.process = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_heed_interrupts,  # noqa: PLW1509  this process has no other threads that matter
            )
        return self

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(timeout=DEADLINE)

    def run(self) -> int:
        return self.start().wait()

    def pid(self, role: str) -> int:
        """Process id of a stand-in (``ROLE`` or ``ROLE.child``), once it is up."""
        path = self.pids / role
        wait_until(path.exists, f"{role} to come up")
        return int(path.read_text())

    def status(self) -> dict[str, Any]:
        return json.loads((self.run_dir / "launcher" / "status.json").read_text())  # type: ignore[no-any-return]

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.root / "events.jsonl").read_text().splitlines()]

    def output(self) -> str:
        return (self.root / "launcher.out").read_text()

    def living(self) -> list[str]:
        """Stand-ins that still run, and the watchdog."""
        found = [path.name for path in self.pids.iterdir() if _runs(int(path.read_text()))]
        return found + [p.name() for p in _watchdogs(self.run_dir)]

    def clean_up(self) -> None:
        """End whatever a failed test left."""
        pids = [int(path.read_text()) for path in self.pids.iterdir()] + [p.pid for p in _watchdogs(self.run_dir)]
        for pid in [*pids, *([self.process.pid] if self.process else [])]:
            if _runs(pid):
                os.kill(pid, signal.SIGKILL)
        if self.process:
            self.process.wait()


def wait_until(condition: Any, what: str, deadline: float = DEADLINE) -> None:
    end = time.monotonic() + deadline
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def make_model(directory: Path) -> Path:
    """What the launcher takes for a whole model."""
    directory.mkdir(parents=True)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (directory / name).write_text("{}")
    (directory / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    (directory / "model.safetensors").write_bytes(b"made up")
    return directory


def make_checkpoint(checkpoints: Path, step: int, halves: tuple[str, ...] = ("trainer", "orchestrator")) -> Path:
    """What the launcher takes for a complete checkpoint (with both halves)."""
    marks = {"trainer": ".metadata", "orchestrator": "progress.pt"}
    for half in halves:
        path = checkpoints / f"step_{step}" / half
        path.mkdir(parents=True)
        (path / marks[half]).write_bytes(b"made up")
    return checkpoints / f"step_{step}"


def _heed_interrupts() -> None:
    """A test suite in the background of a shell inherits that SIGINT is ignored; the launcher would leave it so."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _watchdogs(run_dir: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if str(run_dir) in " ".join(process.cmdline()) or (
                process.name().startswith("PRL::Watch") and _holds(process, run_dir)
            ):
                found.append(process)
        except psutil.Error:
            continue
    return found


def _holds(process: psutil.Process, run_dir: Path) -> bool:
    return any(Path(file.path).is_relative_to(run_dir) for file in process.open_files())


def component(role: str, scenario: dict[str, Any]) -> None:
    behaviour = scenario["components"].get(role, {})
    pids = Path(scenario["pids"])
    if behaviour.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if behaviour.get("child"):
        # A session of its own and deaf: what torchrun's ranks and users' own programs are at worst.
        code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
        child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        _publish(pids / f"{role}.child", str(child.pid))
    if "environ" in behaviour:
        _publish(Path(behaviour["environ"]), json.dumps(dict(os.environ)))
    for line in behaviour.get("say", []):
        print(line, flush=True)
    for path in behaviour.get("touch", []):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()
    rank = os.environ.get("RANK")
    _publish(pids / (role if rank is None else f"{role}.{rank}"), str(os.getpid()))
    if "wait_for" in behaviour:
        while not Path(behaviour["wait_for"]).exists():
            time.sleep(0.02)
    if "raise" in behaviour:
        raise RuntimeError(behaviour["raise"])
    if "exit" not in behaviour and (role in SERVERS or ("wait_for" not in behaviour and behaviour.get("stay"))):
        while True:
            signal.pause()
    sys.exit(behaviour.get("exit", 0))


def launcher(path: Path, scenario: dict[str, Any]) -> int:
    from prl.config import RLConfig, SFTConfig
    from prl.launch.components import Programs
    from prl.launch.run import launch, launch_sft
    from prl.rundir.logs.console import setup_logging

    def script(role: str) -> tuple[str, ...]:
        return __file__, "component", role, str(path)

    def program(role: str) -> tuple[str, ...]:
        return sys.executable, *script(role)

    torchrun = scenario["torchrun"]
    programs = Programs(
        inference=program("inference"),
        env_server=program("env_server"),
        orchestrator=program("orchestrator"),
        trainer=script("trainer") if torchrun else program("trainer"),
        sft_trainer=program("trainer"),
        torchrun=Programs.torchrun if torchrun else (),
    )
    setup_logging("info")
    with Path(scenario["events"]).open("a") as events:

        def record(event: Any) -> None:
            row = {"event": type(event).__name__, **vars(event)}
            events.write(json.dumps(row, default=str) + "\n")
            events.flush()

        if scenario["kind"] == "sft":
            sft = SFTConfig.model_validate(scenario["config"])
            return launch_sft(sft, argv=scenario["argv"], on_event=record, programs=programs).exit_code
        rl = RLConfig.model_validate(scenario["config"])
        return launch(rl, argv=scenario["argv"], on_event=record, programs=programs).exit_code


def _publish(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(text)
    temporary.rename(path)


if __name__ == "__main__":
    mode, *rest = sys.argv[1:]
    if mode == "component":
        component(rest[0], json.loads(Path(rest[1]).read_text()))
    else:
        sys.exit(launcher(Path(rest[0]), json.loads(Path(rest[0]).read_text())))
