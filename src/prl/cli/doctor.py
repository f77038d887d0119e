"""``prl doctor``: whether this machine is ready to run, before a run tells it."""

import os
import platform
import textwrap
from dataclasses import asdict
from pathlib import Path

import click

from prl.cli.answers import envelope, print_json, print_text, user_thresholds
from prl.cli.machine import PROBLEM, READY, STATES, UNKNOWN, WARNING, Check, examine
from prl.rundir.discovery import default_output_dir
from prl.watch.outward import safe

_EXIT_CODES = {PROBLEM: 2, UNKNOWN: 3, WARNING: 1, READY: 0}
"""By the worst state, the worst first."""
_WIDTH = 100
_INDENT = " " * 20


@click.command()
@click.option(
    "--output-dir",
    type=click.Path(path_type=Path),
    help="Where runs are to go. Default: $PRL_OUTPUT_DIR, else outputs.",
)
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
def doctor(output_dir: Path | None, *, as_json: bool) -> int:
    """Whether this machine is ready to run: packages, ports, disk, SLURM. Starts and changes nothing.

    Exit status: 0 ready, 1 runs start and something is worth a look, 2 no run starts, 3 something could not be told,
    64 called wrongly.
    """
    checks = examine(output_dir or default_output_dir(), user_thresholds().host.disk_low)
    found = {check.state for check in checks}
    code = next(code for state, code in _EXIT_CODES.items() if state in found)
    if as_json:
        counts = {state: sum(check.state == state for check in checks) for state in STATES}
        rows = [asdict(check) for check in checks]
        host, python = os.uname().nodename, platform.python_version()
        print_json(envelope(ok=code == 0, host=host, python=python, counts=counts, rows=rows, truncated=False))
    else:
        print_text("".join(map(_lines, checks)))
    return code


def _lines(check: Check) -> str:
    head = f"{check.check:<10}{check.state:<10}"
    texts = [check.message, *([f"-> {check.action}"] if check.action else [])]
    lines = [textwrap.fill(safe(text), _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT) for text in texts]
    return head + "\n".join(lines)[len(head) :] + "\n"
