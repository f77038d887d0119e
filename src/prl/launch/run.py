"""One launch: checks, the attempt's files, the processes, the outcome.

Nothing is written before all that can be refused has been looked at, and nothing older is touched unless processes are
really going to start: a dry run adds an attempt and leaves every other byte as it was.
"""

import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from pydantic import BaseModel

from prl.config import LogConfig, RLConfig, SFTConfig, checkpoint_root
from prl.launch.components import Component, Identity, Programs, rl_components, sft_components
from prl.launch.directory import (
    check_directory,
    new_attempt,
    point_latest,
    refuse_foreign_checkpoints,
    refuse_unwritable,
    remove_run,
    remove_stale,
    set_aside,
    starting_alone,
)
from prl.launch.events import Event, Finished, Outcome, Started
from prl.launch.exits import OK, RUN_DIRECTORY, SIGNALLED, RefusedError
from prl.launch.identity import named, run_id
from prl.launch.inputs import check_conversations, check_sources
from prl.launch.model import copy_tokenizer, resolve_model
from prl.launch.ports import PortClaim, claim_ports
from prl.launch.progress import Progress
from prl.launch.records import start_command, write_records
from prl.launch.resolve import Decisions, resolve_rl, resolve_sft, rl_files
from prl.launch.resume import ResumePoint, resume_point
from prl.launch.supervisor import Supervisor
from prl.launch.surroundings import describe
from prl.rundir.checkpoints import HALVES, TRAINER
from prl.rundir.layout import RunLayout
from prl.rundir.logs.console import ContractFormatter, JsonFormatter, success
from prl.rundir.status import STARTING, STOPPED, LauncherStatus

logger = logging.getLogger("prl.launch")

REFUSED = "refused"
DRY_RUN = "dry run"


def launch(
    config: RLConfig,
    *,
    argv: Sequence[str],
    on_event: Callable[[Event], None] = lambda _event: None,
    programs: Programs | None = None,
) -> Outcome:
    """Run ``config`` to its end and say how it ended. Must be called in the main thread.

    ``argv`` are the words after ``rl`` that gave the configuration; they are recorded. Lines go to the ``prl`` logger
    and to the attempt's ``launcher.log``.
    """
    return _Launch("rl", config, argv, on_event, programs or Programs()).outcome()


def launch_sft(
    config: SFTConfig,
    *,
    argv: Sequence[str],
    on_event: Callable[[Event], None] = lambda _event: None,
    programs: Programs | None = None,
) -> Outcome:
    """As :func:`launch`, for supervised fine-tuning."""
    return _Launch("sft", config, argv, on_event, programs or Programs()).outcome()


@dataclass(frozen=True)
class _Prepared:
    """What differs between the kinds of runs once everything is decided."""

    files: Mapping[str, BaseModel]
    components: list[Component]
    seeds: Mapping[str, int | None]
    address_files: Sequence[Path]


class _Launch:
    def __init__(
        self,
        kind: str,
        config: RLConfig | SFTConfig,
        argv: Sequence[str],
        on_event: Callable[[Event], None],
        programs: Programs,
    ) -> None:
        self.kind = kind
        self.config = config
        self.argv = argv
        self.on_event = on_event
        self.programs = programs
        self.claim: PortClaim | None = None

    def outcome(self) -> Outcome:
        try:
            outcome = self._launch()
        except RefusedError as refused:
            logger.error("%s", refused)
            logger.error("Nothing was started")
            outcome = Outcome(refused.exit_code, REFUSED, cause=str(refused))
        except OSError as error:  # a directory that cannot be made, a disk that is full
            cause = f"output_dir = '{self.config.output_dir}': {error}"
            logger.error("Error occurred: %s", cause)
            logger.error("Nothing was started")
            outcome = Outcome(RUN_DIRECTORY, REFUSED, cause=cause)
        except KeyboardInterrupt:  # before the supervisor took over the signals
            logger.warning("Received an interrupt. Nothing was started")
            outcome = Outcome(SIGNALLED + signal.SIGINT, STOPPED, cause="stopped by SIGINT")
        finally:
            if self.claim:
                self.claim.release()
        self.on_event(Finished(outcome))
        return outcome

    def _launch(self) -> Outcome:
        config = self.config
        sources = [s.name for s in config.orchestrator.train.source] if isinstance(config, RLConfig) else ["sft"]
        going_on = config.resume is not None and config.resume.dir is None
        run = named(config.run, sources=sources, model=config.model.name, resuming=going_on)
        layout = RunLayout((config.output_dir / run.dir).absolute())
        model = resolve_model(config.model.name)
        self._check_inputs()
        with contextlib.ExitStack() as starting:
            starting.enter_context(starting_alone(layout.root))
            removing = check_directory(layout, config.output_dir, resuming=going_on, clean=config.clean)
            checkpoints = checkpoint_root(config.ckpt, layout.root).absolute()
            if not going_on and not checkpoints.is_relative_to(layout.root):
                refuse_foreign_checkpoints(checkpoints)
            halves = HALVES if self.kind == "rl" else (TRAINER,)
            resume = resume_point(config.resume, checkpoints, halves, config.max_steps)
            if isinstance(config, RLConfig):
                self.claim = claim_ports(config)
            if removing and not config.dry_run:
                remove_run(layout)
            attempt = new_attempt(layout)
            decided = Decisions(run, run_id(), layout, attempt, model, resume)
            prepared = self._prepare(decided)
            environment = describe(prepared.seeds, config.env_vars)
            write_records(attempt, self.kind, self.argv, prepared.files, environment)
            if config.dry_run:
                return self._stay_dry(decided, removing)
            point_latest(layout, attempt)
            with _logging_to(attempt.logs / "launcher.log", config.log):
                supervisor = self._supervisor(decided, prepared, checkpoints)
                starting.close()  # the status tells of this launcher from here on
                return supervisor.run()

    def _check_inputs(self) -> None:
        config = self.config
        if isinstance(config, RLConfig):
            check_sources(config.orchestrator.train.source, config.env_vars)
        else:
            check_conversations(config.data.path)
        refuse_unwritable("output_dir", config.output_dir)
        if config.ckpt and config.ckpt.output_dir:
            refuse_unwritable("ckpt.output_dir", config.ckpt.output_dir)

    def _prepare(self, decided: Decisions) -> _Prepared:
        config, attempt = self.config, decided.attempt
        identity = Identity(decided.run_id, decided.run.name, config.env_vars)
        if isinstance(config, SFTConfig):
            resolved = resolve_sft(config, decided)
            seeds = {"seed": config.seed, "data.seed": config.data.seed}
            return _Prepared(
                {"sft": resolved}, sft_components(resolved, attempt, identity, self.programs), seeds, address_files=()
            )
        assert self.claim is not None
        whole, servers = resolve_rl(config, decided, self.claim.ports)
        seeds_of_rl = {
            "trainer.seed": config.trainer.seed,
            "orchestrator.train.seed": config.orchestrator.train.seed,
            "orchestrator.train.sampling.seed": config.orchestrator.train.sampling.seed,
            "inference.engine.seed": config.inference.engine.seed,
        }
        return _Prepared(
            rl_files(whole, servers),
            rl_components(whole, servers, attempt, identity, self.programs),
            seeds_of_rl,
            [server.address_file for server in servers],
        )

    def _stay_dry(self, decided: Decisions, removing: bool) -> Outcome:
        point_latest(decided.layout, decided.attempt, only_if_missing=True)
        named_by_user = bool(self.config.run.name or self.config.run.dir)
        command = start_command(self.kind, self.argv, decided.run.name, named=named_by_user)
        if removing:
            logger.info("--clean will remove %s when the run is started", decided.layout.root)
        success(logger, "Dry run complete. Resolved configuration: %s", decided.attempt.resolved)
        logger.info("Start it with:\n  %s", command)
        return Outcome(OK, DRY_RUN, run_dir=decided.layout.root)

    def _supervisor(self, decided: Decisions, prepared: _Prepared, checkpoints: Path) -> Supervisor:
        """Settle what an earlier attempt left and say in ``launcher/status.json`` that this launcher is at work."""
        config, layout, attempt, resume = self.config, decided.layout, decided.attempt, decided.resume
        self._tell_beginning(decided, checkpoints)
        resume_step = resume.step if resume else None
        remove_stale(layout, checkpoints, resume_step)
        copy_tokenizer(decided.model, layout.tokenizer)
        ports = self.claim.ports.by_name() if self.claim else {}
        status = LauncherStatus(
            run_id=decided.run_id,
            run_name=decided.run.name,
            kind=self.kind,
            attempt=attempt.number,
            phase=STARTING,
            host=socket.gethostname(),
            pid=os.getpid(),
            started=psutil.Process().create_time(),
            updated=time.time(),
            max_steps=config.max_steps,
            step=resume_step,
            ports=ports,
        )
        layout.launcher.mkdir(exist_ok=True)
        status.write(layout.status_json)
        self.on_event(Started(decided.run.name, layout.root, attempt.number, config.max_steps, resume_step, ports))
        monitor = config.monitors.file
        progress = Progress(
            layout,
            attempt.logs,
            layout.file_monitor / monitor.path if monitor else None,
            self.kind,
            config.max_steps,
            resume_step,
            prepared.address_files,
        )
        return Supervisor(
            prepared.components,
            layout,
            status,
            progress,
            shutdown_timeout=config.shutdown_timeout,
            launcher_log=attempt.logs / "launcher.log",
            on_event=self.on_event,
        )

    def _tell_beginning(self, decided: Decisions, checkpoints: Path) -> None:
        logger.info("Run %s, attempt %d: %s", decided.run.name, decided.attempt.number, decided.layout.root)
        if self.claim:
            ports = ", ".join(f"{name} {port}" for name, port in self.claim.ports.by_name().items())
            logger.info("Ports: %s", ports)
        resume: ResumePoint | None = decided.resume
        if resume is None:
            logger.info("Training from scratch with model %s", decided.model)
            return
        logger.info("Resuming from step %d (%s)", resume.step, resume.directory)
        moved = [] if resume.fork else set_aside(checkpoints, resume.step, decided.attempt)
        if moved:
            where = checkpoints / f"abandoned.attempt_{decided.attempt.number}"
            logger.warning("Checkpoints of later steps %s were moved to %s", moved, where)


@contextlib.contextmanager
def _logging_to(path: Path, config: LogConfig) -> Iterator[None]:
    """Have the launcher's lines in its own log too."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(JsonFormatter() if config.json_logging else ContractFormatter(with_source=False))
    root = logging.getLogger("prl")
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()
