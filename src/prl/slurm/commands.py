"""The one place that starts a process to ask SLURM: an allow list, a time limit and a bound on what is read.

A query is an argument vector built by the modules beside this one and checked here again, so that nothing but reading
can be asked: there is no shell, and a job id or a host name can never become an option. The environment is small:
``SQUEUE_FORMAT``, ``SACCT_FORMAT`` and their like would change what the answers look like. Times are asked as seconds
since 1970, since SLURM prints local time without a zone. Left out: submitting, cancelling and requeueing jobs.
"""

import contextlib
import os
import re
import selectors
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import IO

SECONDS = 10.0
"""Time limit of a query. A controller that is away keeps ``squeue`` waiting for 18 to 20 s."""
MAX_BYTES = 4 * 1024**2
"""Bytes read of an answer; about 8,000 jobs."""

PROBE_SCRIPT = (
    "echo host $SLURMD_NODENAME; "
    "echo section processes; ps -eo pid,ppid,stat,etimes,rss,args --sort=-rss 2>/dev/null | head -n 60; "
    "echo section memory; head -n 3 /proc/meminfo; "
    "echo section disk; df -Pk /tmp /dev/shm 2>/dev/null; "
    "echo section gpus; nvidia-smi --query-gpu=index,utilization.gpu,memory.used,memory.total,temperature.gpu "
    "--format=csv,noheader,nounits 2>/dev/null; "
    "exit 0"
)
"""What a probe runs on each node of a job: it reads and writes nothing."""


class Kind(StrEnum):
    """Why a query has no answer, or not a whole one."""

    NOT_INSTALLED = "not installed"
    REFUSED = "refused"
    TIMED_OUT = "timed out"
    CONTROLLER_SILENT = "controller silent"
    ACCOUNTING_SILENT = "accounting silent"
    ACCOUNTING_DISABLED = "accounting disabled"
    UNKNOWN_OPTION = "unknown option"
    UNKNOWN_JOB = "unknown job"
    TOO_LONG = "too long"
    NOT_UNDERSTOOD = "not understood"


@dataclass(frozen=True)
class Trouble:
    """A query that failed: what kind, SLURM's own words (one line), and the program that was asked."""

    kind: Kind
    message: str
    program: str

    @property
    def silent(self) -> bool:
        """Nobody answered: what was known before still stands, only older."""
        return self.kind in (Kind.TIMED_OUT, Kind.CONTROLLER_SILENT, Kind.ACCOUNTING_SILENT)

    def __str__(self) -> str:
        return f"{self.program}: {self.kind} ({self.message})" if self.message else f"{self.program}: {self.kind}"


@dataclass(frozen=True)
class Query:
    """What to run, for how many seconds at most, and how many bytes of its output to read."""

    argv: tuple[str, ...]
    seconds: float = SECONDS
    max_bytes: int = MAX_BYTES


@dataclass(frozen=True)
class Answer:
    """What a query printed (bytes that are no UTF-8 replaced). ``trouble`` is None when it is whole."""

    text: str
    trouble: Trouble | None
    at: float
    """When the answer was complete, seconds since 1970."""


def not_understood(answer: Answer, program: str) -> Trouble:
    """What was printed without an error and is not what was asked for, as of a wrapper in the program's place."""
    return Trouble(Kind.NOT_UNDERSTOOD, _words(answer.text[:600])[:100], program)


Runner = Callable[[Query], Answer]
"""What carries a query out: :func:`run`, or recorded answers."""

_ID = r"\d+(?:_\d+|\+\d+)?"
_IDS = rf"{_ID}(?:,{_ID})*"
_HOSTS = r"[A-Za-z0-9][A-Za-z0-9._,\[\]-]*"
_USER = r"[A-Za-z0-9_.][A-Za-z0-9_.@-]*"
_FORMAT = r"[^\0]+"
_ALLOWED: tuple[tuple[str, ...], ...] = (
    ("squeue", "--noheader", "--states=all", f"--jobs={_IDS}", f"--format={_FORMAT}"),
    ("squeue", "--noheader", "--states=all", f"--user={_USER}", f"--format={_FORMAT}"),
    ("scontrol", "--oneliner", "show", "job|node", rf"{_ID}|{_HOSTS}"),
    ("scontrol", "show", "hostnames", _HOSTS),
    ("sacct", "--parsable2", "--duplicates", f"--jobs={_IDS}", r"--format=[A-Za-z,]+"),
    ("sacct", "--parsable2", "--duplicates", f"--jobs={_IDS}", r"--format=[A-Za-z,]+", f"--delimiter={_FORMAT}"),
    ("sinfo", "--noheader", "--Node", f"--nodes={_HOSTS}", f"--format={_FORMAT}"),
    ("sstat", "--parsable2", "--allsteps", f"--jobs={_IDS}", r"--format=[A-Za-z,]+"),
    (
        "srun",
        "--overlap",
        f"--jobid={_ID}",
        f"--nodelist={_HOSTS}",
        r"--nodes=\d+",
        r"--ntasks=\d+",
        "--ntasks-per-node=1",
        "--label",
        "--input=none",
        "--time=1",
        "--immediate=5",
        "sh",
        "-c",
        re.escape(PROBE_SCRIPT),
    ),
)
_RULES = tuple(tuple(re.compile(part, re.S) for part in rule) for rule in _ALLOWED)

_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LD_LIBRARY_PATH", "SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "TZ")

_KINDS = (
    (Kind.UNKNOWN_JOB, re.compile(r"Invalid job id|Job/step already completing|no steps running|Invalid Job", re.I)),
    (
        Kind.UNKNOWN_OPTION,
        re.compile(
            r"unrecognized option|invalid option|unknown option|Invalid field|Unrecognized (?:format|option)", re.I
        ),
    ),
    (
        Kind.ACCOUNTING_DISABLED,
        re.compile(r"accounting storage is disabled|not running a supported accounting_storage plugin", re.I),
    ),
    (Kind.ACCOUNTING_SILENT, re.compile(r"slurm_persist_conn|PersistInit|talking to the database|slurmdbd", re.I)),
    (
        Kind.CONTROLLER_SILENT,
        re.compile(
            r"Unable to contact slurm controller|Socket timed out|Connection (?:refused|timed out|reset)|Zero Bytes"
            r"|failed to fetch config|Could not establish a configuration|fetch_config|in standby|Unable to establish"
            r"|Munge|authentication (?:error|credential)|Communication connection failure|Transport endpoint",
            re.I,
        ),
    ),
)
_STEP_BYTES = 64 * 1024
_ERROR_BYTES = 16 * 1024
_GRACE = 1.0


def allowed(argv: tuple[str, ...]) -> bool:
    """Whether the allow list holds this argument vector: every part of one of its rules, in order, as a whole."""
    return any(
        len(rule) == len(argv) and all(part.fullmatch(text) for part, text in zip(rule, argv, strict=True))
        for rule in _RULES
    )


def environment(own: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment a query runs in, made of ``own`` (default: this process's)."""
    source = os.environ if own is None else own
    return {name: source[name] for name in _KEPT if name in source} | {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}


def run(query: Query) -> Answer:
    """Ask. Never raises on what SLURM does; raises ValueError for what the allow list does not hold.

    Returns within ``query.seconds`` and 2 s more: a program that is late gets SIGTERM (``srun`` then ends its step),
    and SIGKILL a second later. What was printed until then is in the answer.
    """
    if not allowed(query.argv):
        raise ValueError(f"not an allowed query of SLURM: {' '.join(query.argv)[:200]!r}")
    program = query.argv[0]
    try:
        process = subprocess.Popen(
            query.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            cwd="/",
            start_new_session=True,
        )
    except FileNotFoundError:
        return Answer("", Trouble(Kind.NOT_INSTALLED, "", program), time.time())
    except OSError as error:
        return Answer("", Trouble(Kind.REFUSED, str(error), program), time.time())
    with process:
        try:
            out, errors, late, long = _read(process, query)
        finally:
            _end(process)
    said = errors.decode(errors="replace")
    trouble: Trouble | None
    if late:
        trouble = _late(program, said, query.seconds)
    elif long:
        trouble = Trouble(Kind.TOO_LONG, f"more than {query.max_bytes} bytes", program)
    else:
        trouble = trouble_of(program, said, process.returncode)
    return Answer(out.decode(errors="replace"), trouble, time.time())


def trouble_of(program: str, errors: str, code: int) -> Trouble | None:
    """What a program's standard error and exit status say. None for a success."""
    for line in errors.splitlines():
        for kind, pattern in _KINDS:
            if pattern.search(line) and (code or kind is Kind.CONTROLLER_SILENT):
                return Trouble(kind, _words(line), program)
    if code == 0:
        return None
    lines = [line for line in errors.splitlines() if line.strip()]
    return Trouble(Kind.REFUSED, _words(lines[0]) if lines else f"exit status {code}", program)


def _read(process: subprocess.Popen[bytes], query: Query) -> tuple[bytes, bytes, bool, bool]:
    """Standard output, standard error, whether time ran out, whether the output was longer than allowed."""
    deadline = time.monotonic() + query.seconds
    out, errors = bytearray(), bytearray()
    assert process.stdout is not None
    assert process.stderr is not None
    with selectors.DefaultSelector() as selector:
        for pipe, kept in ((process.stdout, out), (process.stderr, errors)):
            selector.register(pipe, selectors.EVENT_READ, kept)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return bytes(out), bytes(errors), True, False
            for key, _ in selector.select(left):
                data = os.read(key.fd, _STEP_BYTES)
                if not data:
                    selector.unregister(key.fileobj)
                elif key.data is out:
                    out += data
                elif len(errors) < _ERROR_BYTES:
                    errors += data
            if len(out) > query.max_bytes:
                return bytes(out[: query.max_bytes]), bytes(errors), False, True
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(max(deadline - time.monotonic(), 0.0))
    return bytes(out), bytes(errors), process.returncode is None, False


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what still runs, and close the pipes even where a grandchild holds their other ends."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    pipes: tuple[IO[bytes] | None, ...] = (process.stdout, process.stderr)
    for pipe in pipes:
        if pipe is not None:
            pipe.close()


def _late(program: str, errors: str, seconds: float) -> Trouble:
    """A program that was ended for being late: it may have said before that it reaches nobody."""
    said = trouble_of(program, errors, 1)
    if said is not None and said.silent:
        return said
    return Trouble(Kind.TIMED_OUT, f"no answer within {round(seconds, 1):g} s", program)


def _words(line: str) -> str:
    return " ".join(line.split())[:300]
