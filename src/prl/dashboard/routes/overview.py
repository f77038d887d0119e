"""The overview of a run, and the curated charts it is made from."""

from typing import Any

from prl.dashboard.errors import not_found
from prl.dashboard.parameters import Parameter
from prl.dashboard.routes.metrics import AXIS, MAX_KEY
from prl.dashboard.routing import Call, Route, head
from prl.rundir.panels import load_panels


def _version(call: Call) -> str:
    from prl.dashboard.marks import places

    judge = call.workspace.judge
    judged = judge.look_at(call.workspace.info(call.run.id))
    said = judged.version if judged is not None else None
    return f"{call.run.metrics_version()} {places(call.run).version} {said} {hash(judge.limits())}"


def overview(call: Call) -> dict[str, Any]:
    from prl.dashboard.overview import overview as make

    run, judge = call.run, call.workspace.judge
    info = call.workspace.info(run.id)
    judged = judge.of(run.id)
    with run.metrics() as store:
        return head(
            **make(
                run,
                info,
                store,
                limits=judge.limits(),
                bottleneck=judged.verdict.bottleneck if judged is not None else None,
                axis=call.query["axis"],
                points=call.query["points"],
                start=call.query["start"],
                end=call.query["end"],
            )
        )


def panels(call: Call) -> dict[str, Any]:
    return head(**load_panels().document)


def metrics_info(call: Call) -> dict[str, Any]:
    key = call.query["key"]
    meaning = load_panels().meaning(key)
    if meaning is None:
        raise not_found(f"nothing is said of the metric {key[:200]!r}")
    return head(key=key, title=meaning.title, unit=meaning.unit, format=meaning.format, about=meaning.about)


ROUTES = (
    Route(
        "/api/v1/runs/{run}/overview",
        overview,
        "All that the overview of a run shows",
        "`tiles`, `bottleneck` (null: not judged yet, or too few steps), `sections` of `charts` with their `lines`, "
        "`marks` (`attempts`, `checkpoints`, `evals`, `alarms`), `axis`, `last_step`, `partial` (only the newest rows "
        "of a large file, which is being read), `missing` (which sections are empty, and why)",
        parameters=(
            AXIS,
            Parameter("points", "integer", "Points of a line", default=200, minimum=2, maximum=1000),
            Parameter("start", "number", "Only points from here on, on the axis"),
            Parameter("end", "number", "Only points up to here, on the axis"),
        ),
        version=_version,
    ),
    Route(
        "/api/v1/panels",
        panels,
        "The curated charts, as they are written",
        "`rl`, `sft`, `eval` by section, `sections`, `metrics` (what keys mean)",
        version=lambda call: f"{id(load_panels())}",
    ),
    Route(
        "/api/v1/metrics-info",
        metrics_info,
        "What a metric means",
        "`key`, `title`, `unit`, `format`, `about`",
        parameters=(Parameter("key", "text", "A key", required=True, longest=MAX_KEY),),
    ),
)
