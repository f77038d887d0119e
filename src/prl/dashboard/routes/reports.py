"""What people and agents wrote about a run, with the quotes in it checked against the traces."""

from hashlib import blake2b
from typing import Any

from prl.dashboard.citations import check_all, parse
from prl.dashboard.errors import ApiError, not_found
from prl.dashboard.markdown import blocks_of, take_notes, without_front_matter
from prl.dashboard.open_runs import OpenRun
from prl.dashboard.routing import Call, Route, head
from prl.rundir.episodes.detail import EpisodeDetail
from prl.rundir.reports import list_reports, read_report
from prl.text.secrets import mask_secrets
from prl.text.terminal import for_terminal

_MAX_ROWS = 500


def reports(call: Call) -> dict[str, Any]:
    found = list_reports(call.run.path)
    rows = [{**vars(report), "title": mask_secrets(report.title)} for report in found[:_MAX_ROWS]]
    return head(counts={"reports": len(found)}, rows=rows, truncated=len(found) > len(rows))


def report(call: Call) -> dict[str, Any]:
    run, name = call.run, call.path["name"]
    text = read_report(run.path, name)
    if text is None:
        raise not_found(f"no report {name[:200]!r}: GET .../reports lists them")
    listed = next((one for one in list_reports(run.path) if one.name == name), None)
    # Masked before it is parsed: a secret that runs over two spans would not be recognised.
    body, notes = take_notes(without_front_matter(mask_secrets(for_terminal(text))))
    citations, others = parse(notes)
    for number, note in others.items():
        body += f"\n\n[{number}] {note}"
    checked = check_all(citations, lambda wanted: _episode(run, wanted))
    return head(
        name=name,
        title=mask_secrets(listed.title) if listed else name,
        changed=listed.changed if listed else None,
        blocks=blocks_of(body, [citation.id for citation in citations]),
        citations=checked,
    )


def _episode(run: OpenRun, wanted: str) -> EpisodeDetail:
    """Raises LookupError, or OSError when its record cannot be read."""
    try:
        return run.rollouts.read(run.rollouts.find(wanted))
    except ApiError as error:
        raise (LookupError if error.status == 404 else OSError)(error.message) from None


def report_version(call: Call) -> str:
    """Citations lead into the stream, which grows: what was not there may come."""
    text = read_report(call.run.path, call.path["name"]) or ""
    return f"{blake2b(text.encode(errors='replace'), digest_size=8).hexdigest()}.{call.run.episodes_version()}"


ROUTES = (
    Route(
        "/api/v1/runs/{run}/reports",
        reports,
        "Reports on the run: STATUS.md and reports/*.md",
        "`rows`: `name` (what the next route takes), `title`, `bytes`, `changed`.",
    ),
    Route(
        "/api/v1/runs/{run}/reports/{name:path}",
        report,
        "One report as plain blocks, its citations checked against the episodes",
        "`name`, `title`, `changed`; `blocks`: `heading` (`level`), `paragraph`, `list` (`ordered`, `start`, `items`: "
        "blocks each), `code` (`language`, `text`), `table` (`align`, `head`, `rows`), `quote` (`blocks`), `rule`; "
        "their `spans` have `text`, `style` (strong, em, code, strike), `href`, `cite` (id of a citation); "
        "`citations`: `id`, `step`, `kind`, `episode`, `quote`, `note`, `found` (null: could not be checked), "
        "`reason`, `link`.",
        version=report_version,
    ),
)
