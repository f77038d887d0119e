"""``prl check-in``: the verdict on a run, appended to its STATUS.md, once or again and again."""

import time

import click

from prl.cli.answers import locate_run, print_json, print_text, user_thresholds, verdict_answer
from prl.cli.parameters import Interval
from prl.watch.checkin import OVER, CheckIn
from prl.watch.checkin import check_in as append_check_in
from prl.watch.outward import safe
from prl.watch.screen import render

NOT_WRITTEN = 74
"""Exit status when the verdict was given but STATUS.md could not be written, ``EX_IOERR`` of sysexits.h."""


@click.command("check-in")
@click.argument("run", required=False)
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.option("--every", type=Interval(), help="Do it again every TIME, for instance 1h, until the run has ended.")
def check_in(run: str | None, as_json: bool, every: float | None) -> int:
    """Judge a run and append the verdict to its STATUS.md.

    Exit status: that of `prl status`; 74 when the verdict was given but STATUS.md could not be written.
    """
    run_dir, limits = locate_run(run), user_thresholds()
    begun, number = time.monotonic(), 0
    code = None
    try:
        while True:
            done = append_check_in(run_dir, limits=limits)
            code = done.verdict.exit_code if done.problem is None else NOT_WRITTEN
            _show(done, as_json=as_json)
            if every is None or done.verdict.phase in OVER:
                return code
            number = max(number + 1, int((time.monotonic() - begun) / every))
            time.sleep(max(begun + number * every - time.monotonic(), 0))
    except KeyboardInterrupt:
        if code is None:
            raise
        click.echo("prl check-in: ended; the run goes on", err=True)
        return code


def _show(done: CheckIn, *, as_json: bool) -> None:
    if as_json:
        _print_answer(done)
    else:
        print_text(render(done.verdict))
        if done.problem is None:
            why = " (the run directory may not be written to)" if done.elsewhere else ""
            print_text(f"\nAppended to {safe(str(done.path))}{why}\n")
    if done.problem is not None:
        click.echo(f"prl check-in: nothing was appended. {safe(done.problem)}", err=True)


def _print_answer(done: CheckIn) -> None:
    answer = verdict_answer(done.verdict)
    answer["ok"] = answer["ok"] and done.problem is None
    answer["status_md"] = {
        "path": str(done.path),
        "written": done.problem is None,
        "elsewhere": done.elsewhere,
        "problem": done.problem,
    }
    print_json(answer)
