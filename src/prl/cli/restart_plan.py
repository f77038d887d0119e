"""``prl restart-plan``: what to type to start a run again, and what must hold before that."""

from pathlib import Path
from typing import Any

import click

from prl.cli.answers import (
    condition_counts,
    envelope,
    locate_run,
    print_safe_json,
    print_text,
    recorded_facts,
    user_thresholds,
)
from prl.watch.assess import assess
from prl.watch.gather import gather
from prl.watch.launch_site import NOT_LOOKED, look
from prl.watch.outward import safe, safe_tree
from prl.watch.restart import Command, RestartPlan, plan
from prl.watch.restart_screen import render_plan, whole


@click.command("restart-plan")
@click.argument("run", required=False)
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.option(
    "--facts",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Plan from the facts recorded in this file instead of a run.",
)
def restart_plan(run: str | None, as_json: bool, facts: Path | None) -> int:
    """What to type to start a run again, what must hold first, and what is lost. Starts, ends and submits nothing.

    Exit status: 0 a restart is warranted and nothing stands against it, 1 something does, 2 it is not warranted or not
    possible, 3 not known, 64 called wrongly.
    """
    if facts is not None and run is not None:
        raise click.UsageError("give a RUN or --facts, not both")
    limits = user_thresholds()
    known = recorded_facts(facts) if facts is not None else gather(locate_run(run))
    planned = plan(known, assess(known, limits), NOT_LOOKED if facts is not None else look(known), limits)
    if as_json:
        print_safe_json(answer(planned))
    else:
        print_text(render_plan(planned))
    return planned.exit_code


def answer(planned: RestartPlan) -> dict[str, Any]:
    """The plan as harmless JSON; ``rows`` are its conditions. Commands are whole, however long."""
    fields = safe_tree(planned.to_json())
    fields["command"] = _whole(planned.command) if planned.command is not None else None
    for name in ("alternatives", "verify"):
        fields[name] = [_whole(command) for command in getattr(planned, name)]
    fields.pop("schema_version")
    rows, counts = fields.pop("conditions"), condition_counts(planned.conditions)
    return envelope(ok=planned.exit_code == 0, counts=counts, rows=rows, truncated=False, **fields)


def _whole(command: Command) -> dict[str, str]:
    return {"line": whole(command), "does": safe(command.does)}
