"""``prl check-in``: the verdict on a run, appended to its STATUS.md."""

import click

from prl.cli.answers import locate_run, print_json, print_text, verdict_answer
from prl.watch.checkin import check_in as append_check_in
from prl.watch.outward import safe
from prl.watch.screen import render

NOT_WRITTEN = 74
"""Exit status when the verdict was given but STATUS.md could not be written, ``EX_IOERR`` of sysexits.h."""


@click.command("check-in")
@click.argument("run", required=False)
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
def check_in(run: str | None, as_json: bool) -> int:
    """Judge a run and append the verdict to its STATUS.md.

    Exit status: that of `prl status`; 74 when the verdict was given but STATUS.md could not be written.
    """
    done = append_check_in(locate_run(run))
    if as_json:
        answer = verdict_answer(done.verdict)
        answer["ok"] = answer["ok"] and done.problem is None
        answer["status_md"] = {"path": str(done.path), "written": done.problem is None, "problem": done.problem}
        print_json(answer)
    else:
        print_text(render(done.verdict))
        if done.problem is None:
            print_text(f"\nAppended to {safe(str(done.path))}\n")
    if done.problem is not None:
        click.echo(f"prl check-in: nothing was appended. {safe(done.problem)}", err=True)
        return NOT_WRITTEN
    return done.verdict.exit_code
