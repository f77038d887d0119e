"""``prl episode``: one episode with everything that became known of it, as a transcript, as tokens or as JSON."""

from pathlib import Path

import click

from prl.cli.answers import MAX_ROWS, envelope, locate_run, print_json, print_safe_json, print_text
from prl.cli.episode_answer import View, episode_answer
from prl.cli.episode_text import episode_lines
from prl.rundir.episodes.detail import EpisodeDetail, TraceDetail, open_episode
from prl.rundir.locate import traces_path
from prl.rundir.tokens.text import TokenText, token_text
from prl.watch.outward import safe


@click.command()
@click.argument("run")
@click.argument("episode_id", metavar="ID")
@click.option("--trace", "trace_number", type=click.IntRange(0), default=0, help="Which trace of the episode, from 0.")
@click.option("--branch", type=click.IntRange(0), help="Only this branch, from 0. With tokens: the first, if not said.")
@click.option("--tokens", "as_tokens", is_flag=True, help="The tokens along a branch with what is known of each.")
@click.option("--rendered", is_flag=True, help="The text that the model saw along a branch, special tokens included.")
@click.option("--start", type=click.IntRange(0), default=0, help="Begin at this message, token or character.")
@click.option("--limit", type=click.IntRange(1), default=MAX_ROWS, show_default=True, help="Show so many.")
@click.option(
    "--tokenizer",
    "directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Take the tokenizer.json in this directory instead of the run's.",
)
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
def episode(
    run: str,
    episode_id: str,
    *,
    trace_number: int,
    branch: int | None,
    as_tokens: bool,
    rendered: bool,
    start: int,
    limit: int,
    directory: Path | None,
    as_json: bool,
) -> int:
    """One episode: who, what came of it, its messages; what was learned later is folded in.

    ID is an episode's id, a unique beginning of one, the id of a trace, or the number of its line in the stream.
    Exit status: 0; 1 when its record is damaged or gone; 64 when there is no such episode.
    """
    if as_tokens and rendered:
        raise click.UsageError("--tokens and --rendered: one of them")
    root = locate_run(run)
    try:
        detail = open_episode(traces_path(root), episode_id)
    except LookupError as error:
        raise click.UsageError(safe(str(error))) from None
    except OSError as error:
        _show_failure(root, str(error), as_json=as_json)
        return 1
    tokenizer = token_text(root, directory) if as_tokens or rendered else TokenText(None, None, None)
    trace = _trace(detail, trace_number)
    of_one_branch = branch is not None or as_tokens or rendered
    chosen = _branch(trace, branch or 0) if of_one_branch and trace is not None else None
    view = View(detail, trace, trace_number, chosen, start, limit, tokenizer, as_tokens, rendered)
    if as_json:
        print_safe_json(episode_answer(view, root))
    else:
        print_text("".join(f"{line}\n" for line in episode_lines(view, run)))
    return 0


def _show_failure(root: Path, problem: str, *, as_json: bool) -> None:
    """Say that the episode is known and its record cannot be read."""
    if as_json:
        print_json(envelope(ok=False, run_dir=str(root), error=problem, counts={}, rows=[], truncated=False))
    else:
        click.echo(safe(f"prl episode: {problem}"), err=True)


def _trace(detail: EpisodeDetail, number: int) -> TraceDetail | None:
    if not detail.traces and number == 0:
        return None  # it failed before it had one
    if number >= len(detail.traces):
        raise click.UsageError(f"--trace {number}: the episode has {len(detail.traces)}, numbered from 0")
    return detail.traces[number]


def _branch(trace: TraceDetail, number: int) -> int | None:
    if number >= len(trace.branches):
        if number == 0:
            return None  # a trace without messages
        raise click.UsageError(f"--branch {number}: the trace has {len(trace.branches)}, numbered from 0")
    return number
