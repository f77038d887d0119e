"""Facts about a run, gathered from its directory and from the process table of this host. Reads only.

Every reader is bounded, so that a run of any size costs about the same, and none raises on what files hold: what could
not be read is said in ``Facts.unknown``.
"""

import json
import os
import shutil
import socket
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from prl.rundir.broadcasts import list_broadcasts
from prl.rundir.checkpoints import HALVES, TRAINER, complete_steps
from prl.rundir.configs import source_name
from prl.rundir.layout import RunLayout, step_number
from prl.rundir.locate import RunFiles, has_logs, list_attempts, locate
from prl.rundir.regular import read_regular
from prl.rundir.status import STOPPED, LauncherStatus, StatusError, load_status
from prl.rundir.tree import as_object
from prl.watch.blame import tell_echoes
from prl.watch.facts import (
    Broadcast,
    Checkpoints,
    Clock,
    Disk,
    EnvServer,
    Facts,
    Launcher,
    Process,
    Progress,
    RunIdentity,
)
from prl.watch.lines import Lines, read_lines
from prl.watch.processes import launcher_facts, process_facts
from prl.watch.series import Metrics, episodes_clock, read_metrics_end

_KINDS = (("sft.json", "sft"), ("orchestrator.json", "rl"), ("trainer.json", "rl"), ("eval.json", "eval"))
_DOCUMENTS = ("rl", "orchestrator", "trainer", "sft", "eval")
_MAX_CONFIG = 4 * 1024**2


def gather(run_dir: Path, now: float | None = None) -> Facts:
    """The facts about the newest attempt of a run, as of ``now`` (Unix seconds; default: this moment)."""
    moment = time.time() if now is None else now
    root = run_dir.resolve()
    status, broken = _launcher_status(root)
    status, attempt = _current_attempt(root, status)
    files = locate(root, attempt)
    launcher = launcher_facts(status, moment) if status is not None else None
    processes = process_facts(status, launcher, moment) if status is not None and launcher is not None else []
    lines = read_lines(files)
    started = _attempt_started(files, status, lines)
    since = started - 1 if started is not None and len(files.attempts) > 1 else 0.0
    metrics = Metrics()
    if files.metrics is not None:
        metrics = read_metrics_end(files.metrics, files.metrics.relative_to(root).as_posix(), since)
    run = _identity(root, files, status, lines)
    return Facts(
        as_of=moment,
        host=socket.gethostname(),
        run=run,
        attempt=files.attempt,
        attempts=list(files.attempts),
        attempt_started=started,
        configured=files.resolved is not None,
        launched=bool(files.logs) or launcher is not None,
        env_servers=_env_servers(files),
        launcher=launcher,
        processes=processes,
        progress=_progress(root, metrics, lines, launcher, since),
        marks=lines.marks,
        broadcast=_newest_broadcast(root),
        series=metrics.series,
        nonfinite=[*metrics.nonfinite, *lines.nonfinite],
        logs=lines.logs,
        errors=tell_echoes(lines.errors, processes, _teardown(launcher, lines)),
        checkpoints=_checkpoints(root, files, run.kind),
        disk=_disk(root),
        unknown=[*_unknown(files, launcher, processes, lines, broken), *_unread(files), *metrics.unknown],
    )


def _launcher_status(root: Path) -> tuple[LauncherStatus | None, str | None]:
    """The launcher's word, and why it cannot be read where there is one."""
    try:
        return load_status(RunLayout(root).status_json), None
    except StatusError as error:
        return None, str(error)


def _current_attempt(root: Path, status: LauncherStatus | None) -> tuple[LauncherStatus | None, int | None]:
    """The attempt to judge, and the launcher's word on it.

    That is the launcher's, unless a later attempt has logs. A dry run makes a later attempt too, but writes no log.
    """
    attempts = list_attempts(root)
    later = [number for number in attempts if status is None or number > status.attempt]
    ran = [number for number in later if has_logs(root, number)]
    if ran or status is None:
        return None, max(ran or attempts, default=None)
    return status, status.attempt if status.attempt in attempts else (max(attempts, default=None))


def _attempt_started(files: RunFiles, status: LauncherStatus | None, lines: Lines) -> float | None:
    if status is not None:
        return status.started
    if files.configs is not None:
        try:
            return (files.configs / "command.txt").stat().st_mtime
        except OSError:
            pass
    return min((mark.time for mark in lines.marks if mark.time is not None), default=None)


def _teardown(launcher: Launcher | None, lines: Lines) -> float | None:
    """When the launcher began to end the run.

    Of a run that somebody stopped, what was said in the same second counts as after it: lines carry whole seconds, and
    there is no crash that could have come just before.
    """
    if lines.teardown is None:
        return None
    return lines.teardown - 1 if launcher is not None and launcher.phase == STOPPED else lines.teardown


# ---- what was configured


def _identity(root: Path, files: RunFiles, status: LauncherStatus | None, lines: Lines) -> RunIdentity:
    documents = {name: _json(files.resolved / f"{name}.json") for name in _DOCUMENTS} if files.resolved else {}
    shared, trainer = documents.get("rl", {}), documents.get("trainer", {})
    orchestrator = documents.get("orchestrator", {}) or as_object(shared.get("orchestrator"))
    everything = [shared, orchestrator, trainer, documents.get("sft", {}), documents.get("eval", {})]
    sources = as_object(orchestrator.get("train")).get("source") or orchestrator.get("env")
    client = as_object(as_object(orchestrator.get("model")).get("client"))
    kind = next((kind for name, kind in _KINDS if files.resolved and (files.resolved / name).is_file()), "other")
    return RunIdentity(
        name=status.run_name if status is not None and status.run_name else root.name,
        dir=str(root),
        kind=status.kind if status is not None else kind,
        layout=files.layout,
        source=files.resolved.relative_to(root).as_posix() if files.resolved else None,
        max_steps=_first_int(*(document.get("max_steps") for document in everything), status and status.max_steps),
        model=_model_name(everything),
        envs=[name for source in sources if (name := source_name(source))] if isinstance(sources, list) else [],
        env_startup_timeout=_seconds(orchestrator.get("env_startup_timeout"), 600.0),
        inference_ready_timeout=_seconds(client.get("wait_for_ready_timeout"), 3600.0),
        sync_timeout=_seconds(orchestrator.get("trainer_ready_timeout"), 1200.0),
        batch_timeout=_seconds(trainer.get("batch_timeout"), 3600.0),
        resume_step=_resume_step(lines, everything),
    )


def _model_name(documents: list[dict[str, Any]]) -> str | None:
    names = (as_object(document.get("model")).get("name") for document in documents)
    return next((name for name in names if isinstance(name, str)), None)


def _resume_step(lines: Lines, documents: list[dict[str, Any]]) -> int | None:
    said = next((mark for mark in lines.marks if mark.kind == "resume"), None)
    if said is not None:
        return int(said.text.split("step ", 1)[1].split()[0].strip(",.:;"))
    return _first_int(*(as_object(document.get("resume")).get("step") for document in documents))


def _env_servers(files: RunFiles) -> list[EnvServer]:
    servers = []
    for path in sorted(files.resolved.glob("envs/*/*.json")) if files.resolved else ():
        address = path.with_suffix(".address")
        try:
            ready = address.stat().st_mtime
        except OSError:
            ready = None
        servers.append(EnvServer(path.stem, ready, address.relative_to(files.root).as_posix()))
    return servers


# ---- how far it is


def _progress(root: Path, metrics: Metrics, lines: Lines, launcher: Launcher | None, since: float) -> Progress:
    said = (
        Clock(launcher.step, None, launcher.source) if launcher is not None and launcher.step is not None else Clock()
    )
    return Progress(
        trainer=_newer(metrics.trainer, _line_clock(lines, "trainer"), said),
        orchestrator=_newer(metrics.orchestrator, _line_clock(lines, "orchestrator")),
        policy=metrics.policy,
        episodes=episodes_clock(RunLayout(root).traces, "monitors/file/traces/stream.index.jsonl", since),
        median_step=metrics.median_step if metrics.median_step is not None else _line_interval(lines),
    )


def _newer(*clocks: Clock) -> Clock:
    """The clock that advanced last. Metrics and step lines say the same, but either may be off or behind."""
    return max(clocks, key=lambda clock: (clock.value is not None, clock.time or 0.0))


def _line_clock(lines: Lines, worker: str) -> Clock:
    steps = lines.steps.get(worker)
    if not steps:
        return Clock()
    source = next((mark.file for mark in lines.marks if mark.kind == f"{worker}_step"), None)
    return Clock(steps[-1][0], steps[-1][1], source)


def _line_interval(lines: Lines) -> float | None:
    """Median seconds between two step lines, the slower worker's. Lines carry whole seconds only."""
    medians = []
    for steps in lines.steps.values():
        gaps = [later[1] - earlier[1] for earlier, later in pairwise(steps) if later[0] == earlier[0] + 1]
        medians += [median(gaps)] if gaps else []
    return max(medians, default=None)


def _newest_broadcast(root: Path) -> Broadcast | None:
    states = list_broadcasts(RunLayout(root).broadcasts)
    if not states:
        return None
    last = states[-1]
    source = last.path.relative_to(root).as_posix()
    return Broadcast(last.version, last.sender_ready, last.receiver_ready, last.started, last.finished, source)


def _checkpoints(root: Path, files: RunFiles, kind: str) -> Checkpoints:
    directory = RunLayout(root).checkpoints
    if files.resolved is not None:
        resolved = _json(files.resolved / ("sft.json" if kind == "sft" else "trainer.json"))
        configured = as_object(resolved.get("ckpt")).get("output_dir")
        if isinstance(configured, str):
            directory = Path(configured) / "checkpoints"
    complete = complete_steps(directory, (TRAINER,) if kind == "sft" else HALVES)
    try:
        entries = list(directory.iterdir())
    except OSError:
        entries = []
    unfinished = [path for path in entries if path.suffix == ".tmp" and path.stem.startswith("step_")]
    return Checkpoints(
        complete=complete,
        half=sorted(step for path in entries if (step := step_number(path)) is not None and step not in complete),
        unfinished=sorted(path.name for path in unfinished),
        changed=max((_changed(path) for path in unfinished), default=None),
        source=directory.relative_to(root).as_posix() if directory.is_relative_to(root) else str(directory),
    )


def _changed(directory: Path) -> float:
    times = [0.0]
    for path in (directory, *directory.glob("*"), *directory.glob("*/*")):
        try:
            times.append(path.stat().st_mtime)
        except OSError:
            continue
    return max(times)


def _disk(root: Path) -> Disk | None:
    try:
        usage = shutil.disk_usage(root)
    except OSError:
        return None
    return Disk(str(root), usage.free, usage.total)


def _unknown(
    files: RunFiles, launcher: Launcher | None, processes: list[Process], lines: Lines, broken: str | None
) -> list[str]:
    notes = []
    if broken is not None:
        notes.append(f"processes: launcher/status.json cannot be read ({broken}), so nothing says which they are")
    elif launcher is None and files.logs:
        notes.append("processes: this attempt has no launcher/status.json, so nothing says which they are")
    silent = [process.name for process in processes if process.state == "unknown"]
    if silent and launcher is not None:
        age = "its word is old" if launcher.state == "unknown" else "they run on another host"
        notes.append(f"processes {', '.join(silent)}: on {launcher.host}, which cannot be asked from here ({age})")
    if files.metrics is None and files.logs:
        there = os.path.lexists(RunLayout(files.root).metrics)
        what = "is not a regular file (a named pipe, a directory, a link to nothing)" if there else "does not exist"
        notes.append(f"metrics: monitors/file/metrics.jsonl {what}")
    skipped = [f"{log.file} ({log.skipped} bytes)" for log in lines.logs if log.skipped]
    if skipped:
        notes.append(f"the beginning of these logs was not looked at: {', '.join(skipped)}")
    notes += [f"{log.file}: {log.problem}" for log in lines.logs if log.problem]
    if files.logs_left_out:
        notes.append(f"{files.logs_left_out} more log files were not looked at")
    return notes


def _unread(files: RunFiles) -> list[str]:
    """Documents of the configuration that are there and cannot be read: what they say counts as not said."""
    paths = [files.resolved / f"{name}.json" for name in _DOCUMENTS] if files.resolved else []
    problems = ((path.relative_to(files.root).as_posix(), _document(path)[1]) for path in paths)
    return [f"configuration: {name} cannot be read ({problem})" for name, problem in problems if problem is not None]


# ---- JSON of anybody


def _json(path: Path) -> dict[str, Any]:
    return _document(path)[0]


def _document(path: Path) -> tuple[dict[str, Any], str | None]:
    """The object in a file, and why there is none. A file that does not exist is no problem."""
    try:
        raw = json.loads(read_regular(path, _MAX_CONFIG))
    except (FileNotFoundError, NotADirectoryError):
        return {}, None
    except OSError as error:
        return {}, error.strerror or str(error)
    except (ValueError, RecursionError) as error:
        return {}, f"not JSON: {error}"
    return (raw, None) if isinstance(raw, dict) else ({}, f"a JSON {type(raw).__name__}, not an object")


def _first_int(*values: object) -> int | None:
    return next((value for value in values if isinstance(value, int) and not isinstance(value, bool)), None)


def _seconds(value: object, default: float) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else default
