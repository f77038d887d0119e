"""``dashboard [DIR ...]``: the web page of all runs below these directories.

Exit status: 0 served, stopped, or one serves already; 1 it could not; 3 (``--status``) none runs; 64 usage.
"""

import secrets
import sys
import time
from pathlib import Path
from typing import Any

import click

from prl.dashboard import daemon, registry
from prl.rundir.discovery import default_output_dir
from prl.text.human import format_duration

NOT_RUNNING = 3
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("dirs", nargs=-1, type=click.Path(path_type=Path), metavar="[DIR]...")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=daemon.PORT,
    show_default=True,
    help="The next free one is taken when it is not.",
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen at. Beyond loopback a token is needed."
)
@click.option("--isolated", is_flag=True, help="Serve these directories alone, not found by launchers.")
@click.option(
    "--allow-host",
    "allow_hosts",
    multiple=True,
    metavar="NAME",
    help="A further name under which browsers may ask, e.g. of a proxy.",
)
@click.option(
    "--no-token", is_flag=True, help="Beyond loopback: let everybody who reaches the port read everything. Unsafe."
)
@click.option("--demo", is_flag=True, help="Make up a live run with every kind of content and show it.")
@click.option("--status", "asks_status", is_flag=True, help="Say where the dashboard is, and end.")
@click.option("--stop", "asks_stop", is_flag=True, help="End the dashboard of this host, and end.")
@click.option("--json", "as_json", is_flag=True, help="With --status: as JSON.")
@click.option("--registered", is_flag=True, hidden=True, help="Serve what launchers registered, nothing else.")
def dashboard(
    *,
    dirs: tuple[Path, ...],
    port: int,
    host: str,
    isolated: bool,
    allow_hosts: tuple[str, ...],
    no_token: bool,
    demo: bool,
    asks_status: bool,
    asks_stop: bool,
    as_json: bool,
    registered: bool,
) -> None:
    """Serve the web page of all runs below DIR... (default: $PRL_OUTPUT_DIR, else outputs)."""
    if as_json and not asks_status:
        raise click.UsageError("--json goes with --status")
    try:
        if asks_status:
            sys.exit(_status(as_json=as_json))
        if asks_stop:
            sys.exit(_stop())
        if demo:
            sys.exit(_demo(port))
        token = None if host in _LOOPBACK or no_token else secrets.token_urlsafe(24)
        chosen = () if registered else dirs or (default_output_dir(),)
        settings = daemon.Settings(tuple(chosen), host, port, isolated, allow_hosts, token)
        _warn(settings, absent=[path for path in dirs if not path.is_dir()])
        other = daemon.serve(settings, _announce)
    except daemon.DashboardError as error:
        click.echo(f"No dashboard: {error}", err=True)
        sys.exit(1)
    except OSError as error:
        where = error.filename or registry.shared_root()
        click.echo(f"No dashboard: {where}: {error.strerror}. `dashboard --isolated` needs nothing there.", err=True)
        sys.exit(1)
    if other is not None:
        click.echo(f"Runs already, and was given the directories: {other}\n`dashboard --isolated` serves them apart.")


def _warn(settings: daemon.Settings, absent: list[Path]) -> None:
    for path in absent:
        click.echo(f"{path} does not exist yet; its runs appear when it does.", err=True)
    if settings.host not in _LOOPBACK and settings.token is None:
        click.echo("Everybody who reaches this port can read every run below the directories.", err=True)


def _announce(url: str) -> None:
    click.echo(f"Dashboard: {url}\nEnds with Ctrl-C.")


def _status(*, as_json: bool) -> int:
    # Not before: what answers are made with takes as long to load as all that serving needs.
    from prl.cli.answers import envelope, print_json, print_text

    entry = daemon.running()
    answering = entry is not None and daemon.answers(entry)
    holder = registry.read_entry(registry.shared_entry())
    other = holder if holder is not None and not holder.ours and holder.alive() else None
    dirs = [str(path) for path in registry.served_dirs()]
    if as_json:
        found: dict[str, Any] = {name: getattr(entry, name, None) for name in ("url", "pid", "started")}
        found["other"] = other.url if other else None
        print_json(envelope(ok=answering, **found, counts={"dirs": len(dirs)}, rows=dirs, truncated=False))
    elif entry is None:
        print_text("No dashboard runs on this host.\n")
    else:
        since = format_duration(max(0.0, time.time() - entry.started))
        said = "" if answering else " It does not answer."
        click.echo(
            f"{entry.address} (process {entry.pid}, for {since}).{said}"
        )  # whole: a token is a secret to print_text
        print_text("".join(f"  {text}\n" for text in dirs))
    if other is not None and not as_json:
        print_text(f"Another one, not of prl, is at {other.url}.\n")
    return 0 if answering else NOT_RUNNING


def _stop() -> int:
    entry = daemon.stop()
    click.echo("No dashboard runs on this host." if entry is None else f"Ended: {entry.url} (process {entry.pid}).")
    return 0


def _demo(port: int) -> int:
    from prl.dashboard.demo import growing_run

    with growing_run() as output_dir:
        click.echo(f"A made-up run grows in {output_dir}; it is removed at the end.")
        daemon.serve(daemon.Settings((output_dir,), port=port, isolated=True), _announce)
    return 0


def main() -> None:
    """The ``dashboard`` script."""
    try:
        dashboard(standalone_mode=False)
    except click.UsageError as error:
        error.show()
        sys.exit(64)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)


if __name__ == "__main__":
    main()
