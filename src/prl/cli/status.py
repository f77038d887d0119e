"""``prl status``: the verdict on a run, on one screen or as JSON, once or until the run has ended."""

import json
import sys
from pathlib import Path

import click

from prl.cli.answers import (
    judge,
    locate_run,
    print_json,
    print_text,
    recorded_facts,
    resumption_answer,
    verdict_answer,
)
from prl.watch.facts import Facts
from prl.watch.gather import gather
from prl.watch.outward import safe, safe_tree
from prl.watch.screen import render
from prl.watch.verdict import Verdict


@click.command()
@click.argument("run", required=False)
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.option("--follow", is_flag=True, help="Show it anew every few seconds, until the run has ended.")
@click.option(
    "--since-restart",
    is_flag=True,
    help="Say whether the newest attempt took up the work; the exit status says it too.",
)
@click.option("--probe", is_flag=True, help="Also look at the nodes of the run's SLURM job, through srun --overlap.")
@click.option(
    "--facts",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Judge the facts recorded in this file instead of a run.",
)
@click.option(
    "--save-facts",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the facts to this file, secrets masked: for a bug report, or to judge them again.",
)
def status(
    run: str | None,
    *,
    as_json: bool,
    follow: bool,
    since_restart: bool,
    probe: bool,
    facts: Path | None,
    save_facts: Path | None,
) -> int:
    """How a run is doing: verdict, findings with evidence, key numbers.

    Exit status: 0 healthy or finished, 1 degraded, 2 down, 3 unknown, 64 called wrongly. With --since-restart: 0 a
    counter advanced in the newest attempt and all its processes are up, 1 not yet, 2 no, 3 not known.
    """
    if facts is not None and run is not None:
        raise click.UsageError("give a RUN or --facts, not both")
    if follow and (as_json or since_restart or probe or facts is not None or save_facts is not None):
        raise click.UsageError("--follow goes with no other option")
    if probe and (since_restart or facts is not None):
        raise click.UsageError("--probe looks at nodes of now: not with --facts or --since-restart")
    if follow:
        return _follow(locate_run(run))
    known = recorded_facts(facts) if facts is not None else gather(locate_run(run))
    if save_facts is not None:
        _save(known, save_facts)
    verdict = judge(known)
    if since_restart:
        return _resumption(known, verdict, as_json)
    return _verdict(verdict, as_json, known if probe else None)


def _verdict(verdict: Verdict, as_json: bool, probed: Facts | None = None) -> int:
    """``probed``: the facts whose job's nodes are to be looked at as well."""
    seen = None
    if probed is not None:
        from prl.cli.probing import look_at_nodes

        seen = look_at_nodes(probed)
    if as_json:
        print_json(verdict_answer(verdict) | ({"probe": seen.to_json()} if seen else {}))
    else:
        print_text(render(verdict) + (seen.text() if seen else ""))
    return verdict.exit_code


def _resumption(known: Facts, verdict: Verdict, as_json: bool) -> int:
    from prl.watch.restart_screen import render_resumption
    from prl.watch.resumption import resumption

    found = resumption(known, verdict)
    if as_json:
        print_json(resumption_answer(found))
    else:
        print_text(render_resumption(found))
    return found.exit_code


def _follow(run_dir: Path) -> int:
    from prl.cli.following import follow, lines_of_changes, screen_of_its_own

    def look() -> Verdict:
        return judge(gather(run_dir))

    shown = screen_of_its_own() if sys.stdout.isatty() else lines_of_changes()
    return _verdict(follow(look, shown), as_json=False)


def _save(facts: Facts, path: Path) -> None:
    try:
        path.write_text(json.dumps(safe_tree(facts.to_json()), indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    except OSError as error:
        raise click.UsageError(safe(f"--save-facts {path}: {error.strerror or error}")) from None
