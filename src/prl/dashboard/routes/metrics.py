"""The metrics of a run: its keys, series, steps and rows."""

from typing import Any

from prl.dashboard.errors import bad_parameter
from prl.dashboard.parameters import Parameter
from prl.dashboard.routing import Call, Route, head

AXIS = Parameter("axis", "choice", "What x is", default="step", choices=("step", "time", "tokens"))
MAX_KEY = 20_000
"""Characters of a key that is asked for."""
_STEP = 2**53 - 1


def _version(call: Call) -> str:
    return call.run.metrics_version()


def _version_with_marks(call: Call) -> str:
    from prl.dashboard.marks import places

    return f"{call.run.metrics_version()} {places(call.run).version} {hash(call.workspace.judge.limits())}"


def keys(call: Call) -> dict[str, Any]:
    from prl.dashboard import metric_answers

    with call.run.metrics() as store:
        return head(**metric_answers.keys(store, call.query["match"]))


def series(call: Call) -> dict[str, Any]:
    from prl.dashboard import metric_answers

    query = call.query
    if not query["key"]:
        raise bad_parameter("key", "is missing")
    limits = call.workspace.judge.limits()
    with call.run.metrics() as store:
        return head(
            **metric_answers.series(
                call.run,
                store,
                query["key"],
                limits=limits,
                axis=query["axis"],
                start=query["start"],
                end=query["end"],
                points=query["points"],
                band=query["band"],
            )
        )


def step(call: Call) -> dict[str, Any]:
    from prl.dashboard import metric_answers

    with call.run.metrics() as store:
        return head(**metric_answers.step(store, call.query["step"]))


def tail(call: Call) -> dict[str, Any]:
    from prl.dashboard import metric_answers

    with call.run.metrics() as store:
        try:
            return head(**metric_answers.tail(store, call.query["cursor"], call.query["limit"]))
        except ValueError as error:
            raise bad_parameter("cursor", str(error)) from None


ROUTES = (
    Route(
        "/api/v1/runs/{run}/metrics/keys",
        keys,
        "All series of a run",
        "`series` (`producer`, `key`, `points`, `first`, `last`, `last_step`, `last_time`, `nonfinite` values, `band`: "
        "`p10/p90` or `min/max`), `counts`, `truncated`, `partial`, `damage` (lines that are no JSON), `drift` (values "
        "that are no numbers), `trouble` (why the file cannot be read), `absent`",
        parameters=(Parameter("match", "text", "Only keys with this text, or that this pattern (*, ?) fits"),),
        version=_version,
    ),
    Route(
        "/api/v1/runs/{run}/metrics/series",
        series,
        "Points of some series",
        "`axis`, `series` (`producer`, `key`, `axis`, `x`, `y` with null where a value is not finite, `nonfinite`: "
        "`[x, nan|inf|-inf|dropped]`, `total`, `low`, `high`), `missing` (what means no series), `marks`, `partial`",
        parameters=(
            Parameter("key", "text", "`producer:key`, a key or a meaning such as `reward`", many=True, longest=MAX_KEY),
            AXIS,
            Parameter("start", "number", "Only points from here on, on the axis"),
            Parameter("end", "number", "Only points up to here, on the axis"),
            Parameter("points", "integer", "Points of a series, extremes kept", default=400, minimum=2, maximum=5000),
            Parameter("band", "flag", "Also the series above and below a mean, where there are", default=False),
        ),
        version=_version_with_marks,
    ),
    Route(
        "/api/v1/runs/{run}/metrics/step",
        step,
        "All values of one step",
        "`step`, `rows` (`producer`, `key`, `value`, `nonfinite`)",
        parameters=(Parameter("step", "integer", "The step", required=True, minimum=-_STEP, maximum=_STEP),),
        version=_version,
    ),
    Route(
        "/api/v1/runs/{run}/metrics/tail",
        tail,
        "The rows since a cursor, without one the newest",
        "`rows` (`producer`, `step`, `time`, `values`, `nonfinite`, `supersedes`), `cursor` (for the next call), "
        "`more`, `restarted` (the cursor was of another file: these are the newest rows instead)",
        parameters=(
            Parameter("cursor", "text", "Where the last answer ended"),
            Parameter("limit", "integer", "Rows at most", default=100, minimum=1, maximum=1000),
        ),
        version=_version,
    ),
)
