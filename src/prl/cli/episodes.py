"""``prl episodes``: the episodes of a run as a list, in groups, counted, or searched for a text."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from prl.cli.answers import MAX_ROWS, envelope, locate_run, print_json, print_text
from prl.cli.episode_tables import clock, episode_table, group_table, number, short, text_or_dash
from prl.cli.parameters import Moment, Steps
from prl.cli.spelled import as_recorded
from prl.cli.tables import aligned
from prl.cli.ticker import Ticker
from prl.rundir.episodes.facets import NUMERIC
from prl.rundir.episodes.filters import OUTCOMES, Filters
from prl.rundir.episodes.orders import SORTABLE
from prl.rundir.episodes.pages import MAX_LIMIT
from prl.rundir.episodes.search import search_episodes
from prl.rundir.episodes.store import STEPS, VALUE_TEXTS
from prl.rundir.episodes.table import EpisodeTable
from prl.rundir.jsonl import Damage
from prl.rundir.locate import traces_path
from prl.rundir.search import Query
from prl.text.human import format_bytes
from prl.watch.outward import safe

_VALUES_BYTES = 2 * 1024**3
"""Bytes of records that are read for what rows of values would say, in one call. The next one goes on."""
_BAR = 40


@dataclass
class _View:
    """What was asked for."""

    run: Path
    table: EpisodeTable
    filters: Filters
    sort: str
    ascending: bool
    offset: int
    limit: int
    upto: int | None
    lacking: bool = False
    """Whether values that the answer is about could not all be made."""
    searched: Damage = field(default_factory=Damage)
    """What a search could not read."""


_TEXTS = (
    ("env", "--env", "NAME", "Only of this environment."),
    ("agent", "--agent", "NAME", "Only those in which this agent took part."),
    ("stop_condition", "--stop", "NAME", "Only those that ended by this stop condition."),
    ("group", "--group", "ID", "Only of this group."),
    ("task", "--task", "KEY", "Only of this task."),
)
_KINDS = ("train", "eval")
_MADE = frozenset((*STEPS, *VALUE_TEXTS))
"""Columns that only rows of values tell of."""


def _filter_options(command: Any) -> Any:
    """The options that choose episodes, one for each condition."""
    options = [
        click.option(option, name, metavar=metavar, multiple=True, help=f"{text} Repeatable.")
        for name, option, metavar, text in _TEXTS
    ]
    options += [
        click.option("--kind", type=click.Choice(_KINDS), multiple=True, help="Only these. Repeatable."),
        click.option("--outcome", type=click.Choice(list(OUTCOMES)), multiple=True, help="Only these. Repeatable."),
        click.option("--step", "ship_step", type=Steps(), help="Only those shipped with these steps."),
        click.option("--dispatch-step", type=Steps(), help="Only those sent out at these steps."),
        click.option("--reward-min", type=float, help="Only with at least this reward."),
        click.option("--reward-max", type=float, help="Only with at most this reward."),
        click.option("--truncated/--no-truncated", default=None, help="Only those that a limit cut, or the others."),
        click.option("--effective/--no-effective", default=None, help="Only those that were used, or those left out."),
        click.option("--since", type=Moment(), help="Only those that arrived at this time or later."),
        click.option("--until", type=Moment(), help="Only those that arrived at this time or earlier."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@click.argument("run", required=False)
@_filter_options
@click.option(
    "--sort", type=click.Choice(SORTABLE), metavar="COLUMN", default="arrival", show_default=True, help="Order by it."
)
@click.option("--ascending", is_flag=True, help="Smallest or oldest first.")
@click.option("--limit", type=click.IntRange(0, MAX_LIMIT), default=MAX_ROWS, show_default=True, help="Show so many.")
@click.option("--offset", type=click.IntRange(0), default=0, help="Pass over so many.")
@click.option("--upto", type=click.IntRange(0), help="Of the first so many of the stream: pages then do not shift.")
@click.option("--groups", type=click.Choice(["group", "task", "step"]), help="Groups: by step those of one --task.")
@click.option("--histogram", type=click.Choice(NUMERIC), metavar="COLUMN", help="Counts by the value of a column.")
@click.option("--bins", type=click.IntRange(1, 500), default=20, show_default=True, help="Bins of the histogram.")
@click.option("--facets", is_flag=True, help="Counts by environment, kind, outcome and so on.")
@click.option("--search", "text", metavar="TEXT", help="Those in which this was written.")
@click.option("--regex", is_flag=True, help="TEXT is a regular expression.")
@click.option("--cursor", help="Go on with a search from where an answer says.")
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
def episodes(
    run: str | None,
    *,
    sort: str,
    ascending: bool,
    limit: int,
    offset: int,
    upto: int | None,
    groups: str | None,
    histogram: str | None,
    bins: int,
    facets: bool,
    text: str | None,
    regex: bool,
    cursor: str | None,
    as_json: bool,
    **conditions: Any,
) -> None:
    """The episodes of a run, the newest first. Conditions are all to be met."""
    if sum((groups is not None, histogram is not None, facets, text is not None)) > 1:
        raise click.UsageError("--groups, --histogram, --facets and --search: one of them")
    filters = Filters(**{name: value if value != () else None for name, value in conditions.items()})
    root = locate_run(run)
    view = _View(root, _read(root), filters, sort, ascending, offset, limit, upto)
    listed = groups is None and histogram is None and not facets and text is None
    about_values = filters.need_values or facets or groups in ("task", "step") or histogram in _MADE
    if about_values or (listed and sort in _MADE):
        _make_values(view)
    view = replace(view, filters=as_recorded(view.table, filters))
    if groups is not None:
        answer, lines = _groups(view, groups)
    elif histogram is not None:
        answer, lines = _histogram(view, histogram, bins)
    elif facets:
        answer, lines = _facets(view)
    elif text is not None:
        answer, lines = _search(view, text, regex=regex, cursor=cursor)
    else:
        answer, lines = _list(view)
    if as_json:
        name, notes = view.run.resolve().name, _notes(view)
        print_json(envelope(run=name, run_dir=str(view.run), unknown=notes, **_finite(answer)))
    else:
        print_text("\n".join([*lines, *map(safe, _notes(view))]) + "\n")


def _read(root: Path) -> EpisodeTable:
    table = EpisodeTable(traces_path(root))
    with Ticker("reading episodes") as ticker:
        table.refresh(progress=ticker)
    return table


def _make_values(view: _View, rows: Sequence[int] | None = None) -> None:
    """Have what rows of values would say of all episodes, or of some rows of the table."""
    if view.table.values_missing:
        with Ticker("reading records") as ticker:
            view.lacking |= not view.table.make_values(_VALUES_BYTES, ticker, rows)


# ---- what is answered


def _list(view: _View) -> tuple[dict[str, Any], list[str]]:
    page = view.table.page(
        view.filters,
        sort=view.sort,
        descending=not view.ascending,
        offset=view.offset,
        limit=view.limit,
        upto=view.upto,
    )
    numbers = [row["row"] for row in page.rows]
    _make_values(view, numbers)
    rows = view.table.rows(numbers)
    behind = page.total - page.offset - len(rows)
    answer = {
        "counts": {"episodes": view.table.count, "chosen": page.total},
        "offset": page.offset,
        "upto": page.upto,
        "rows": rows,
        "truncated": behind > 0,
    }
    lines = episode_table(rows) if rows else [_none(view, page.total)]
    if behind > 0:
        lines.append(f"and {behind} more (--offset {page.offset + len(rows)} --upto {page.upto})")
    return answer, lines


def _groups(view: _View, by: str) -> tuple[dict[str, Any], list[str]]:
    if by == "step":
        task = view.filters.task
        if task is None or len(task) != 1:
            raise click.UsageError("--groups step: of one --task KEY")
        env = view.filters.env
        found, total = view.table.same_task(task[0], env=env[0] if env else None, limit=view.limit)
    else:
        found, total = view.table.groups(view.filters, by=by, limit=view.limit, upto=view.upto)
    firsts = view.table.rows([group.first_row for group in found])
    rows = [{**asdict(group), "first_episode": row["id"]} for group, row in zip(found, firsts, strict=True)]
    answer = {
        "counts": {"episodes": view.table.count, "groups": total},
        "by": by,
        "rows": rows,
        "truncated": total > len(rows),
    }
    lines = group_table(found, by) if found else [_none(view)]
    if total > len(found):
        lines.append(f"and {total - len(found)} more (--limit)")
    return answer, lines


def _histogram(view: _View, by: str, bins: int) -> tuple[dict[str, Any], list[str]]:
    made = view.table.histogram(view.filters, by=by, bins=bins, upto=view.upto)
    rows = [
        {"start": made.start + made.width * at, "count": count, "errors": made.errors[at]}
        for at, count in enumerate(made.counts)
    ]
    answer = {
        "counts": {"episodes": view.table.count, "chosen": made.total, "in_bins": sum(made.counts)},
        "by": by,
        "width": made.width,
        "rows": rows,
        "truncated": False,
    }
    most = max(made.counts, default=1)
    cells = [("FROM", "EPISODES", "ERRORS", "")]
    for row in rows:
        start = clock(row["start"]) if by in ("arrival", "dispatch") else f"{row['start']:g}"
        bar = "#" * math.ceil(_BAR * row["count"] / most)
        cells.append((start, str(row["count"]), str(row["errors"]), bar))
    return answer, aligned(cells) if rows else [_none(view)]


def _facets(view: _View) -> tuple[dict[str, Any], list[str]]:
    counted = view.table.facets(view.filters, view.upto)
    rows = [
        {"facet": facet, "value": value, "episodes": count}
        for facet, values in counted.items()
        for value, count in values.items()
    ]
    chosen = len(view.table.select(view.filters, view.upto))
    answer = {"counts": {"episodes": view.table.count, "chosen": chosen}, "rows": rows, "truncated": False}
    cells = [(str(row["facet"]), str(row["value"]), str(row["episodes"])) for row in rows]
    return answer, aligned([("FACET", "VALUE", "EPISODES"), *cells])


def _search(view: _View, text: str, *, regex: bool, cursor: str | None) -> tuple[dict[str, Any], list[str]]:
    try:
        query = Query(text, regex=regex)
        with Ticker("searching") as ticker:
            page = search_episodes(
                view.table.traces, query, cursor=cursor, max_hits=max(view.limit, 1), progress=ticker
            )
    except ValueError as error:
        raise click.UsageError(safe(f"--search: {error}")) from None
    view.searched = page.damage
    chosen = set(view.table.select(view.filters, view.upto).tolist())
    rows = []
    for hit in page.hits:
        row = view.table.place_row(hit.chunk, hit.offset)
        if row is not None and row["row"] in chosen:
            rows.append(
                {
                    **{name: row[name] for name in ("id", "line", "kind", "env", "reward", "ship_step", "ok")},
                    "trace_id": hit.trace_id,
                    "node": hit.node,
                    "field": hit.field,
                    "role": hit.role,
                    "excerpt": hit.excerpt.text,
                    "texts": hit.texts,
                }
            )
    answer = {
        "counts": {"episodes": view.table.count, "hits": len(rows)},
        "scanned_bytes": page.scanned_bytes,
        "total_bytes": page.total_bytes,
        "cursor": page.cursor,
        "rows": rows,
        "truncated": not page.done,
    }
    cells = [
        (short(row["id"]), text_or_dash(row["env"]), number(row["reward"]), row["field"], row["excerpt"])
        for row in rows
    ]
    lines = aligned([("ID", "ENV", "REWARD", "IN", "TEXT"), *cells]) if rows else [_none(view)]
    if not page.done:
        searched, whole = format_bytes(page.scanned_bytes), format_bytes(page.total_bytes)
        how_far = f"{searched} of {whole}" if searched != whole else f"nearly all of {whole}"
        lines.append(f"searched {how_far}; the rest with --cursor {page.cursor}")
    return answer, lines


# ---- as JSON


def _finite(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer with ``nonfinite``: which numbers of its rows are null because JSON has no form for them."""
    named = [
        f"{at}/{name}"
        for at, row in enumerate(answer["rows"])
        for name, value in row.items()
        if isinstance(value, float) and not math.isfinite(value)
    ]
    return {**answer, "nonfinite": named}


def _notes(view: _View) -> list[str]:
    """What could not be read, or is not known."""
    table = view.table
    notes = list(table.remarks)
    if table.trouble:
        notes.append(table.trouble)
    for name, damage in {**table.damage, "search": view.searched}.items():
        if damage.lines:
            places = "place" if damage.lines == 1 else "places"
            notes.append(
                f"{name}: {damage.lines} {places} that cannot be read, "
                f"the first at byte {damage.first_offset}: {damage.sample}"
            )
    if view.lacking:
        notes.append(
            f"task, agents and dispatch step of {table.values_missing} episodes are not known yet: this run has no "
            f"rows of values for them, and one call reads {format_bytes(_VALUES_BYTES)} of records. The next goes on"
        )
    return notes


def _none(view: _View, chosen: int = 0) -> str:
    if not view.table.count:
        return "no episode yet"
    if chosen:
        return f"no more: {chosen} episodes, and --offset {view.offset} --limit {view.limit} shows none of them"
    return f"none of {view.table.count} episodes"
