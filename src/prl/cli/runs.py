"""``prl runs``: the runs below some output directories, as a table or as JSON.

Everything but the health comes from the listing, which is cheap. A verdict reads the ends of logs and metrics, so it is
asked for the newest runs alone, and for no longer than a moment, unless more is wanted.
"""

import time
from collections import Counter as Count
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from prl.cli.answers import MAX_ROWS, envelope, print_json, print_text
from prl.cli.tables import aligned
from prl.cli.ticker import Ticker
from prl.rundir.discovery import RunList, discover
from prl.rundir.progress import TRAINER_STEP
from prl.rundir.runs import KINDS, RunInfo
from prl.rundir.status import RUNNING, STARTING, STOPPING
from prl.text.human import format_duration
from prl.watch.outward import safe
from prl.watch.verdict import Verdict
from prl.watch.words import step_words

JUDGED = 20
"""Runs whose health is told without being asked for."""
_JUDGING_SECONDS = 1.0
"""How long may go into that."""
_FRESH = 60.0
"""Seconds after which a launcher's last word is no longer the present."""
_MAX_NOTES = 5

_SORTS: dict[str, tuple[Callable[[RunInfo], Any], bool]] = {
    "changed": (lambda run: run.changed, True),
    "created": (lambda run: run.created or 0.0, True),
    "name": (lambda run: run.name, False),
    "progress": (lambda run: run.last_progress or 0.0, True),
    "step": (lambda run: -1 if run.step is None else run.step, True),
}
"""By name: what to sort by, and whether the greatest comes first."""


@dataclass(frozen=True)
class _Row:
    run: RunInfo
    verdict: Verdict | None
    name: str
    """What to call the run in the next command: its name, or its id where another has that name."""

    @property
    def phase(self) -> str | None:
        return self.verdict.phase if self.verdict else self.run.phase


@click.command()
@click.argument("dirs", nargs=-1, metavar="[DIR]...", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.option("--limit", type=click.IntRange(1), default=MAX_ROWS, show_default=True, help="Show so many runs.")
@click.option(
    "--sort", type=click.Choice(sorted(_SORTS)), default="changed", show_default=True, help="What comes first."
)
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only runs of this kind (repeatable).")
@click.option(
    "--health/--no-health",
    default=None,
    help=f"Tell the health of all that are shown, or of none (default: of the newest {JUDGED}, as far as time goes).",
)
def runs(
    dirs: tuple[Path, ...], *, as_json: bool, limit: int, sort: str, kinds: tuple[str, ...], health: bool | None
) -> None:
    """The runs below these output directories: name, health, phase, step, age, model, environments.

    DIR is an output directory or a run; absent: $PRL_OUTPUT_DIR (default: outputs).
    """
    with Ticker("looking at runs", lambda done, total: f"{done} of {total}") as ticker:
        found = discover(dirs or None, ticker)
    wanted = [run for run in found.runs if not kinds or run.kind in kinds]
    key, descending = _SORTS[sort]
    wanted.sort(key=key, reverse=descending)
    rows = _rows(found, wanted[:limit], health)
    if as_json:
        print_json(_answer(found, wanted, rows))
    else:
        print_text("\n".join(_table(found, wanted, rows)) + "\n")


def _rows(found: RunList, shown: Sequence[RunInfo], health: bool | None) -> list[_Row]:
    names = Count(run.name for run in found.runs)
    verdicts = _verdicts(found, shown, health)
    return [_Row(run, verdicts.get(run.id), run.name if names[run.name] == 1 else run.id) for run in shown]


def _verdicts(found: RunList, shown: Sequence[RunInfo], health: bool | None) -> dict[str, Verdict]:
    """The verdicts on the runs that are shown, the most recently changed first, by id."""
    if health is False:
        return {}
    from prl.watch.assess import assess
    from prl.watch.gather import gather

    newest = sorted(shown, key=lambda run: run.changed, reverse=True)
    end = time.monotonic() + _JUDGING_SECONDS
    verdicts: dict[str, Verdict] = {}
    for run in newest if health else newest[:JUDGED]:
        if not health and time.monotonic() > end:
            break
        verdicts[run.id] = assess(gather(run.path, found.as_of))
    return verdicts


# ---- as JSON


def _answer(found: RunList, wanted: Sequence[RunInfo], rows: Sequence[_Row]) -> dict[str, Any]:
    kinds = Count(run.kind for run in wanted)
    return envelope(
        as_of=found.as_of,
        dirs=[str(path) for path in found.dirs],
        absent=[str(path) for path in found.absent],
        problems=list(found.problems[:MAX_ROWS]),
        counts={
            "runs": len(wanted),
            **{kind: kinds[kind] for kind in KINDS},
            "problems": len(found.problems),
        },
        rows=[_json_row(row) for row in rows],
        truncated=len(rows) < len(wanted) or len(found.problems) > MAX_ROWS,
    )


def _json_row(row: _Row) -> dict[str, Any]:
    run, verdict = row.run, row.verdict
    progress = run.progress
    last = progress.last
    return {
        "id": run.id,
        "name": run.name,
        "dir": str(run.path),
        "kind": run.kind,
        "layout": run.layout,
        "health": verdict.health if verdict else None,
        "reason": verdict.reason if verdict else None,
        "phase": row.phase,
        "phase_as_of": verdict.as_of if verdict else run.phase_as_of,
        "step": run.step,
        "shipped_step": progress.orchestrator.value if progress.orchestrator else None,
        "max_steps": run.max_steps,
        "endless": run.endless,
        "episodes": progress.episodes.value if progress.episodes else None,
        "planned_episodes": run.planned_episodes,
        "last_progress": {"time": last.time, "source": last.source} if last else None,
        "changed": run.changed or None,
        "created": run.created,
        "attempt": run.attempt,
        "attempts": list(run.attempts[:MAX_ROWS]),
        "model": run.model,
        "dataset": run.dataset,
        "train_envs": list(run.train_envs),
        "eval_envs": list(run.eval_envs),
        "job_id": run.job_id,
        "missing": list(run.missing),
        "problems": list(run.problems),
    }


# ---- for people


def _table(found: RunList, wanted: Sequence[RunInfo], rows: Sequence[_Row]) -> list[str]:
    where = ", ".join(f"{path}/" for path in found.dirs)
    lines = []
    if rows:
        header = ("NAME", "KIND", "HEALTH", "PHASE", "STEP", "AGE", "MODEL", "ENVIRONMENTS")
        lines += aligned([header, *(_cells(row, found.as_of) for row in rows)])
    else:
        lines.append(safe(f"no run below {where}" + (" of that kind" if found.runs else "")))
    if len(rows) < len(wanted):
        lines.append(f"and {len(wanted) - len(rows)} more (--limit)")
    if any(_by_file(row.run) for row in rows):
        lines.append("~ nothing that was recorded tells when it got on: the age of a file")
    faulty = sum(bool(row.run.problems) for row in rows)
    if faulty:
        lines.append(f"{faulty} with files that cannot be read or are of a newer form: --json names them")
    lines += [safe(f"not looked at: {problem}") for problem in found.problems[:_MAX_NOTES]]
    if len(found.problems) > _MAX_NOTES:
        lines.append(f"and {len(found.problems) - _MAX_NOTES} more entries were not looked at")
    return lines


def _cells(row: _Row, now: float) -> tuple[str, ...]:
    run = row.run
    # Made safe before it is cut: the rest of an address with a password does not look like one.
    model = safe(run.model or run.dataset or "").rstrip("/").rpartition("/")[2]
    return (
        row.name,
        run.kind,
        row.verdict.health if row.verdict else "-",
        _phase(row, now),
        _step(run),
        _age(run, now),
        model or "-",
        _environments(run),
    )


def _phase(row: _Row, now: float) -> str:
    """The phase, with a question mark where it is an old word of a launcher that said it was at work."""
    old = row.verdict is None and row.run.phase_as_of is not None and now - row.run.phase_as_of > _FRESH
    return (row.phase or "-") + ("?" if old and row.phase in (STARTING, RUNNING, STOPPING) else "")


def _step(run: RunInfo) -> str:
    if run.kind == "eval":
        episodes = run.progress.episodes
        done = "?" if episodes is None or episodes.value is None else str(episodes.value)
        return f"{done} episodes" if run.planned_episodes is None else f"{done} / {run.planned_episodes} episodes"
    return (
        step_words(run.step, run.max_steps, endless=run.endless) if run.kind != "other" or run.step is not None else "-"
    )


def _age(run: RunInfo, now: float) -> str:
    if run.last_progress is not None:
        return "~" * _by_file(run) + format_duration(now - run.last_progress)
    return f"~{format_duration(now - run.changed)}" if run.changed else "-"


def _by_file(run: RunInfo) -> bool:
    """Whether the age is that of a file, which copying a run sets anew, and not one that the run wrote down."""
    return run.progress.last is None or run.progress.last.source == TRAINER_STEP


def _environments(run: RunInfo) -> str:
    names = run.train_envs or run.eval_envs
    rest = f" +{len(names) - 2}" if len(names) > 2 else ""
    return ", ".join(names[:2]) + rest if names else "-"
