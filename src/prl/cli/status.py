"""``prl status``: the verdict on a run, on one screen or as JSON."""

import json
from pathlib import Path

import click

from prl.cli.answers import locate_run, print_json, print_text, verdict_answer
from prl.watch.assess import assess
from prl.watch.facts import Facts, FactsError, loads
from prl.watch.gather import gather
from prl.watch.outward import safe, safe_tree
from prl.watch.screen import render


@click.command()
@click.argument("run", required=False)
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
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
def status(run: str | None, as_json: bool, facts: Path | None, save_facts: Path | None) -> int:
    """How a run is doing: verdict, findings with evidence, key numbers.

    Exit status: 0 healthy or finished, 1 degraded, 2 down, 3 unknown, 64 called wrongly.
    """
    if facts is not None and run is not None:
        raise click.UsageError("give a RUN or --facts, not both")
    known = _recorded(facts) if facts is not None else gather(locate_run(run))
    if save_facts is not None:
        _save(known, save_facts)
    verdict = assess(known)
    if as_json:
        print_json(verdict_answer(verdict))
    else:
        print_text(render(verdict))
    return verdict.exit_code


def _recorded(path: Path) -> Facts:
    try:
        return loads(path.read_bytes())
    except (OSError, FactsError) as error:
        raise click.UsageError(safe(f"{path}: {error}")) from None


def _save(facts: Facts, path: Path) -> None:
    try:
        path.write_text(json.dumps(safe_tree(facts.to_json()), indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    except OSError as error:
        raise click.UsageError(f"--save-facts {path}: {error.strerror or error}") from None
