"""``prl logs``: the lines of all components merged by time, followed, searched, or parsed; known failures."""

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import click

from prl.cli.answers import MAX_ROWS, envelope, locate_run, print_json, print_text
from prl.cli.log_views import entry_row, entry_text, incident_row, incident_text, stamp
from prl.cli.parameters import Moment
from prl.rundir.logs.catalogue import load_catalogue
from prl.rundir.logs.console import LEVELS
from prl.rundir.logs.cursors import CursorError
from prl.rundir.logs.entries import LogEntry
from prl.rundir.logs.follow import LogFollower
from prl.rundir.logs.incident_scan import Incidents, find_incidents
from prl.rundir.logs.merge import LogFilter, LogPage, RunLogs
from prl.rundir.search import Query
from prl.watch.outward import safe, safe_tree

_POLL_SECONDS = 0.25
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class _Request:
    logs: RunLogs
    wanted: LogFilter
    limit: int
    before: str | None
    after: str | None


@click.command()
@click.argument("run", required=False)
@click.option("--component", "components", multiple=True, help="Only this component, group or pattern (repeatable).")
@click.option("--level", type=click.Choice(LEVELS, case_sensitive=False), default="TRACE", help="The least level.")
@click.option("--rank", "ranks", type=click.IntRange(0), multiple=True, help="Only this rank (repeatable).")
@click.option("--grep", metavar="TEXT", help="Only entries in which this text stands, in either case.")
@click.option("--regex", is_flag=True, help="TEXT is a regular expression.")
@click.option("--since", type=Moment(local=True), help="From then on: 10m (ago), 14:30, or an ISO date and time.")
@click.option("--until", type=Moment(local=True), help="Up to then.")
@click.option("--attempt", type=click.IntRange(1), help="The logs of this attempt (default: the newest).")
@click.option("--limit", "--last", type=click.IntRange(1), default=MAX_ROWS, show_default=True, help="So many entries.")
@click.option("--cursor", help="Go on to older entries from the cursor 'older' of an answer.")
@click.option("--after", help="Go on to newer entries from the cursor 'newer' of an answer.")
@click.option("--follow", "-f", is_flag=True, help="Stay and print what is added, of attempts to come too.")
@click.option("--signatures", is_flag=True, help="Known failures instead of lines, with cause and fix.")
@click.option("--values", metavar="ID", help="Lines of one kind of the catalogue, parsed (an unknown ID lists all).")
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON; with --follow a line for each entry.")
def logs(
    run: str | None,
    *,
    components: tuple[str, ...],
    level: str,
    ranks: tuple[int, ...],
    grep: str | None,
    regex: bool,
    since: float | None,
    until: float | None,
    attempt: int | None,
    limit: int,
    cursor: str | None,
    after: str | None,
    follow: bool,
    signatures: bool,
    values: str | None,
    as_json: bool,
) -> int:
    """The log lines of all components of a run, merged by time: the newest, or those asked for."""
    root = locate_run(run)
    if cursor and after:
        raise click.UsageError("give --cursor or --after, not both")
    if follow and (signatures or values or cursor or after or until):
        raise click.UsageError("--follow goes with none of --signatures, --values, --cursor, --after and --until")
    wanted = LogFilter(components, level, ranks, since, until, _query(grep, regex))
    if follow:
        _follow(root, attempt, wanted, limit, as_json=as_json)
    found = RunLogs(root, attempt)
    if signatures:
        with _progress("scanning") as progress:
            incidents = find_incidents(found, components=components, progress=progress)
        _show_incidents(found, incidents, limit, as_json=as_json)
        return 0
    request = _Request(found, wanted, limit, cursor, after)
    if values is None:
        page = _collect(request)
        _show_entries(found, page, as_json=as_json)
    else:
        page = _show_values(request, values, as_json=as_json)
    return 0 if _could_read(page) else 1


def _could_read(page: LogPage) -> bool:
    """Whether logs were read, or there are none: of several, what could not be read is told in ``trouble``."""
    return bool(page.files) or not page.trouble


def _query(text: str | None, regex: bool) -> Query | None:
    if not text:
        return None
    try:
        return Query(text, regex)
    except ValueError as error:
        raise click.UsageError(f"--grep {safe(text)}: {error}") from None


def _collect(request: _Request) -> LogPage:
    """One page, from as much of the logs as it needs: each part read goes on where the last one ended."""
    wanted = request.wanted
    taken: list[LogEntry] = []
    before, after = request.before, request.after
    with _progress("reading") as progress:
        total = sum(_size(file.path) for file in request.logs.files(wanted.components, wanted.ranks))
        scanned = 0
        while True:
            try:
                page = request.logs.page(
                    components=wanted.components,
                    level=wanted.level,
                    ranks=wanted.ranks,
                    since=wanted.since,
                    until=wanted.until,
                    query=wanted.query,
                    where=wanted.where,
                    limit=request.limit - len(taken),
                    before=before,
                    after=after,
                )
            except CursorError as error:
                raise click.UsageError(str(error)) from None
            scanned += page.scanned_bytes
            progress(scanned, total)
            taken = taken + page.entries if after is not None else page.entries + taken
            if page.complete or (after is None and page.older is None):
                return replace(page, entries=taken, scanned_bytes=scanned)
            before, after = (None, page.newer) if after is not None else (page.older, None)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


@contextmanager
def _progress(what: str) -> Iterator[Progress]:
    """Draws how far a long look has come, on a terminal and after a moment; else nothing."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    began = time.monotonic()
    with Bar(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as bar:
        task = bar.add_task(what, visible=False)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, visible=time.monotonic() - began > 0.5, refresh=True)

        yield show


def _show_entries(found: RunLogs, page: LogPage, *, as_json: bool) -> None:
    if as_json:
        _print_page(found, page, [entry_row(entry) for entry in page.entries], {})
        return
    print_text("".join(entry_text(entry) for entry in page.entries))
    if page.trouble:
        click.echo("".join(f"{safe(trouble)}\n" for trouble in page.trouble), nl=False, err=True)


def _print_page(found: RunLogs, page: LogPage, rows: list[dict[str, Any]], more: dict[str, Any]) -> None:
    answer = envelope(
        ok=_could_read(page),
        run_dir=str(found.root),
        attempt=found.attempt,
        attempts=list(found.attempts),
        files=list(page.files),
        trouble=list(page.trouble),
        counts={"rows": len(rows), "files": len(page.files), "scanned_bytes": page.scanned_bytes},
        rows=rows,
        truncated=page.older is not None,
        **more,
    )
    # Cursors are ours and stay whole however long they are.
    answer = {**safe_tree(answer), "older": page.older, "newer": page.newer}
    print_text(json.dumps(answer, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _show_values(request: _Request, pattern_id: str, *, as_json: bool) -> LogPage:
    """Print the values of the lines of one pattern."""
    patterns = load_catalogue().patterns
    if pattern_id not in patterns:
        raise click.UsageError(f"--values {safe(pattern_id)}: no such line; there are {', '.join(sorted(patterns))}")
    pattern = patterns[pattern_id]
    # Only a word that is always there may select what is parsed.
    text = pattern.holds or (pattern.words[0] if len(pattern.words) == 1 else "")
    query = request.wanted.query or (Query(text, ignore_case=False) if text else None)
    parse = load_catalogue().parse_entry
    where = lambda entry: any(parsed.id == pattern_id for parsed in parse(entry))  # noqa: E731
    page = _collect(replace(request, wanted=replace(request.wanted, query=query, where=where)))
    found = [(entry, parsed) for entry in page.entries for parsed in parse(entry) if parsed.id == pattern_id]
    rows = [
        {
            "time": entry.time,
            "exact": entry.exact,
            "component": entry.component,
            "rank": entry.rank,
            "values": parsed.values,
            "file": entry.file,
            "offset": entry.offset,
        }
        for entry, parsed in found
    ]
    if as_json:
        nonfinite = sorted(
            {name for _, parsed in found for name, value in parsed.values.items() if _is_nonfinite(value)}
        )
        _print_page(request.logs, page, rows, {"pattern": pattern_id, "nonfinite": nonfinite})
        return page
    for entry, parsed in found:
        values = "  ".join(f"{name}={value}" for name, value in parsed.values.items())
        print_text(safe(f"{stamp(entry.time, exact=entry.exact)} {entry.component}  {values}") + "\n")
    return page


def _is_nonfinite(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _show_incidents(found: RunLogs, incidents: Incidents, limit: int, *, as_json: bool) -> None:
    shown = incidents.incidents[:limit]
    if as_json:
        failures = sum(one.is_failure for one in incidents.incidents)
        print_json(
            envelope(
                run_dir=str(found.root),
                attempt=found.attempt,
                trouble=list(incidents.trouble),
                counts={
                    "incidents": len(incidents.incidents),
                    "failures": failures,
                    "scanned_bytes": incidents.scanned_bytes,
                    "total_bytes": incidents.total_bytes,
                },
                rows=[incident_row(one) for one in shown],
                truncated=len(shown) < len(incidents.incidents),
            )
        )
        return
    print_text("".join(incident_text(one) for one in shown) or "No known failure in the logs.\n")


def _follow(root: Path, attempt: int | None, wanted: LogFilter, limit: int, *, as_json: bool) -> NoReturn:
    """Print the newest entries, then what is added, until interrupted."""
    follower = LogFollower(root, attempt, wanted=wanted)
    request = _Request(RunLogs(root, follower.attempt), wanted, limit, None, None)
    _print_entries([entry for entry in _collect(request).entries if entry.complete], as_json=as_json)
    shown = follower.attempt
    while True:
        entries = follower.poll()
        if follower.attempt != shown:
            shown = follower.attempt
            click.echo(f"--- attempt {shown} ---", err=True)
        _print_entries(entries, as_json=as_json)
        time.sleep(_POLL_SECONDS)


def _print_entries(entries: list[LogEntry], *, as_json: bool) -> None:
    for entry in entries:
        if as_json:
            click.echo(json.dumps(safe_tree(entry_row(entry)), ensure_ascii=False, allow_nan=False))
        else:
            click.echo(entry_text(entry), nl=False)
    sys.stdout.flush()
