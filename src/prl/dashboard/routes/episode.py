"""One episode: its messages, tokens with their streams, rendered text, policies that changed under way."""

from typing import Any

from prl.dashboard.episode_rows import episode_rows, reference
from prl.dashboard.episode_view import episode_answer
from prl.dashboard.errors import not_found
from prl.dashboard.parameters import Parameter
from prl.dashboard.routes.episodes import BASE
from prl.dashboard.routing import Call, Route, head
from prl.dashboard.token_view import MAX_WINDOW, rendered_text, token_map, token_window
from prl.dashboard.transcript import MAX_NODES
from prl.rundir.episodes.streams import STREAMS

ONE = BASE + "/{id:path}"
"""An id may hold any character; what follows it in an address is of a longer route, which is tried first."""
TRACE = Parameter("trace", "integer", "which trace of the episode, from 0", default=0, minimum=0)
BRANCH = Parameter("branch", "integer", "which of its branches, from 0", default=0, minimum=0)


def version(call: Call) -> str:
    """Of all that is known of the episode."""
    return call.run.rollouts.version(call.run.rollouts.find(call.path["id"]))


def version_with_neighbours(call: Call) -> str:
    row = call.run.rollouts.find(call.path["id"])
    return f"{call.run.rollouts.version(row)} {_neighbours(call, row)}"


def episode(call: Call) -> dict[str, Any]:
    row = call.run.rollouts.find(call.path["id"])
    with call.run.rollouts.episode(row) as opened:
        answer = episode_answer(opened)
    with call.run.episodes() as table:
        shown = episode_rows(table, [row])[0] if "row" in row else {**row, "ref": reference(row)}
    return head(row=shown, neighbours=_neighbours(call, row), **answer)


def nodes(call: Call) -> dict[str, Any]:
    with call.run.rollouts.episode(call.run.rollouts.find(call.path["id"])) as opened:
        transcript = opened.transcript(call.query["trace"])
        found = transcript.nodes(call.query["start"], call.query["limit"])
        return head(total=len(transcript.trace.nodes), start=call.query["start"], nodes=found)


def text(call: Call) -> dict[str, Any]:
    query = call.query
    with call.run.rollouts.episode(call.run.rollouts.find(call.path["id"])) as opened:
        whole = opened.transcript(query["trace"]).text(query["node"], query["part"])
    if whole is None:
        raise not_found(f"no part {query['part']} of message {query['node']}")
    return head(text=whole)


def tokens(call: Call) -> dict[str, Any]:
    query = call.query
    with call.run.rollouts.episode(call.run.rollouts.find(call.path["id"])) as opened:
        trace = opened.transcript(query["trace"]).trace
        return head(**token_window(trace, query["branch"], query["start"], query["limit"], opened.detail.tokenizer))


def branch_map(call: Call) -> dict[str, Any]:
    query = call.query
    with call.run.rollouts.episode(call.run.rollouts.find(call.path["id"])) as opened:
        trace = opened.transcript(query["trace"]).trace
        return head(**token_map(trace, query["branch"], query["stream"], query["bins"], query["threshold"]))


def rendered(call: Call) -> dict[str, Any]:
    query = call.query
    with call.run.rollouts.episode(call.run.rollouts.find(call.path["id"])) as opened:
        trace = opened.transcript(query["trace"]).trace
        return head(**rendered_text(trace, query["branch"], opened.detail.tokenizer))


def policies(call: Call) -> dict[str, Any]:
    from prl.dashboard.policies import policy_changes

    return head(**policy_changes(call.run, call.run.rollouts.find(call.path["id"])))


def _neighbours(call: Call, row: dict[str, Any]) -> dict[str, str | None]:
    """What opens the episodes before and behind this one in the stream."""
    line = row.get("line")
    if type(line) is not int:
        return {"previous": None, "next": None}
    with call.run.episodes() as table:
        found = {"previous": table.row(line=line - 1), "next": table.row(line=line + 1)}
    return {name: reference(other) if other is not None else None for name, other in found.items()}


ROUTES = (
    Route(
        f"{ONE}/tokens",
        tokens,
        "A window of the tokens along a branch, with everything known of each",
        "`streams`: by name `values` (null: nothing known) or a `reason`; of `stable` 0 is counted by the loss, 1 and "
        "-1 left out for being above and below the bound, 2 left out without log-probabilities; `nodes`: [message, "
        "position of its first token here, count]; `special`: positions",
        (
            TRACE,
            BRANCH,
            Parameter("start", "integer", "position of the first", default=0, minimum=0),
            Parameter("limit", "integer", "at most so many", default=4000, minimum=1, maximum=MAX_WINDOW),
        ),
        version,
    ),
    Route(
        f"{ONE}/token-map",
        branch_map,
        "One stream over a whole branch, in bins",
        "`bins`: of each the value that is furthest from zero; `marked`: positions at or beyond the threshold, of "
        "`stable` those that the loss left out, the first 2,000 of `marked_total`",
        (
            TRACE,
            BRANCH,
            Parameter("stream", "choice", "which", default="mismatch_kl", choices=STREAMS),
            Parameter("bins", "integer", "at most so many", default=600, minimum=1, maximum=4000),
            Parameter("threshold", "number", "mark values that are at least so far from zero"),
        ),
        version,
    ),
    Route(
        f"{ONE}/rendered",
        rendered,
        "The text that the model saw along a branch, special tokens included",
        "`status`: ok, missing_token_ids, tokenizer_unavailable or decode_error",
        (TRACE, BRANCH),
        version,
    ),
    Route(
        f"{ONE}/nodes",
        nodes,
        "Messages of a trace in the order in which they were written",
        "`nodes`: as in the episode",
        (
            TRACE,
            Parameter("start", "integer", "index of the first", default=0, minimum=0),
            Parameter("limit", "integer", "at most so many", default=MAX_NODES, minimum=1, maximum=MAX_NODES),
        ),
        version,
    ),
    Route(
        f"{ONE}/text",
        text,
        "The whole text of a part of a message",
        "`text`",
        (
            TRACE,
            Parameter("node", "integer", "index of the message", required=True, minimum=0),
            Parameter("part", "integer", "which of its parts, from 0", default=0, minimum=0),
        ),
        version,
    ),
    Route(
        f"{ONE}/policies",
        policies,
        "Versions of the policy that came while the episode went on",
        "`policies`: version and Unix seconds, as the metrics tell; `span`: first and last by the record",
    ),
    Route(
        ONE,
        episode,
        "One episode: by its `ref`, its id, a trace's, a beginning of one, or its line",
        "`traces`: messages (the first 1,000), branches, rewards, timing lanes; `judge`: recorded calls of judges",
        (),
        version_with_neighbours,
    ),
)
