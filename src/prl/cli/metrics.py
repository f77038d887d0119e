"""``prl metrics``: the keys of a run, the values of some, or the rows since a cursor; as text, JSON or CSV."""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import click

from prl.cli.answers import MAX_ROWS, envelope, locate_run, print_json, print_text
from prl.cli.metrics_views import KeysView, Source, TailView, ValuesView, View
from prl.cli.parameters import Moment, Steps
from prl.rundir.layout import RunLayout
from prl.rundir.locate import metrics_path
from prl.rundir.metrics.names import Name, match, resolve
from prl.rundir.metrics.store import MetricsStore
from prl.rundir.metrics.tail import MetricsTail
from prl.rundir.status import FAILED, FINISHED, STOPPED, read_status
from prl.watch.outward import safe

_LAST = 20
"""Values of each series that are shown when nothing says how many."""
_SUGGESTED = 8


@click.command()
@click.argument("run", required=False)
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option("--match", "pattern", metavar="TEXT", help="Only keys with this text, or that this pattern (*, ?) fits.")
@click.option("--producer", metavar="NAME", help="Only series of this producer (orch, trainer, eval ...).")
@click.option("--tree", is_flag=True, help="Show the keys as a tree.")
@click.option("--step", "steps", type=Steps(), help="Only values of these steps.")
@click.option("--last", type=click.IntRange(1), metavar="N", help=f"The newest N values of each key (default {_LAST}).")
@click.option("--points", type=click.IntRange(2), metavar="N", help="All values of each key, thinned out to about N.")
@click.option("--axis", type=click.Choice(["step", "time"]), default="step", show_default=True, help="What to go by.")
@click.option("--superseded", is_flag=True, help="The values that a resume replaced.")
@click.option("--since", metavar="CURSOR|TIME", help="The rows since an answer gave this cursor, or since a time: 10m.")
@click.option("--limit", type=click.IntRange(1), default=MAX_ROWS, show_default=True, help="Give at most so many rows.")
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Answer as CSV.")
def metrics(
    run: str | None,
    keys: tuple[str, ...],
    *,
    pattern: str | None,
    producer: str | None,
    tree: bool,
    steps: tuple[int | None, int | None] | None,
    last: int | None,
    points: int | None,
    axis: Literal["step", "time"],
    superseded: bool,
    since: str | None,
    limit: int,
    as_json: bool,
    as_csv: bool,
) -> int:
    """The metrics of a run: its keys with their newest values, or the values of some KEYs.

    KEY is a key, producer:key, a pattern with * and ?, or a meaning such as reward, loss, entropy or kv_cache.
    """
    if as_json and as_csv:
        raise click.UsageError("give --json or --csv, not both")
    root = locate_run(run)
    store = _read(root)
    source = Source(root, store)
    names = [name for name in store.names() if producer in (None, name[0])]
    if pattern:
        names = match(names, pattern)
    chosen = list(dict.fromkeys(name for key in keys for name in _chosen(key, names)))
    view: View
    if since is not None:
        view = TailView(source, _since(store, since, limit), set(chosen or names))
    elif keys:
        shown = last
        if last is None and points is None and steps is None and not superseded and not as_csv:
            shown = _LAST
        if superseded:
            series = [store.superseded(*name) for name in chosen]
        else:
            start, end = steps if steps is not None and axis == "step" else (None, None)
            series = [store.series(*name, axis=axis, start=start, end=end, points=points) for name in chosen]
        view = ValuesView(source, dict(zip(chosen, series, strict=True)), shown, limit, asked=last is not None)
    else:
        view = KeysView(source, names, limit, tree=tree)
    if as_json:
        print_json(envelope(**source.fields(), **view.answer()))
    else:
        print_text(view.csv() if as_csv else view.text())
    return 0 if source.ok else 1


def _read(root: Path) -> MetricsStore:
    store = MetricsStore(metrics_path(root))
    store.refresh()
    launcher = read_status(RunLayout(root).status_json)
    if launcher is not None and launcher.phase in (FINISHED, FAILED, STOPPED):
        store.finish()
    return store


def _chosen(key: str, names: Sequence[Name]) -> list[Name]:
    """The series that a KEY means. Raises a usage error that names similar ones."""
    found = resolve(key, names) or (match(names, key) if "*" in key or "?" in key else [])
    found = found or [name for name in names if key in (safe(name[1]), safe(f"{name[0]}:{name[1]}"))]
    if found or not names:
        return found
    keys = sorted({name[1] for name in names})
    similar = [name[1] for name in match(names, key)] or difflib.get_close_matches(key, keys, _SUGGESTED)
    near = ", ".join(dict.fromkeys(similar[:_SUGGESTED]))
    hint = f"; near it: {near}" if near else " (prl metrics RUN lists them)"
    raise click.UsageError(safe(f"no series {key!r} among {len(names)}{hint}"))


def _since(store: MetricsStore, place: str, limit: int) -> MetricsTail:
    """The rows since a cursor or a time. A date has the form of a cursor, but no cursor the form of a date."""
    try:
        moment = Moment().convert(place, None, None)
    except click.BadParameter:
        moment = None
    try:
        return store.tail(place, limit) if moment is None else store.tail(limit=limit, since=moment)
    except ValueError as error:
        raise click.UsageError(safe(str(error))) from None
