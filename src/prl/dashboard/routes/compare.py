"""Several runs side by side."""

from typing import Any

from prl.dashboard.errors import bad_parameter
from prl.dashboard.parameters import Parameter
from prl.dashboard.routes.metrics import AXIS, MAX_KEY
from prl.dashboard.routing import Call, Route, head

LEAST, MOST = 2, 6


def _wanted(call: Call) -> list[str]:
    """The ids of the runs. Raises ApiError (400)."""
    wanted = list(dict.fromkeys(call.query["run"]))
    if not LEAST <= len(wanted) <= MOST:
        raise bad_parameter("run", f"is given {LEAST} to {MOST} times, each another run")
    return wanted


def _version(call: Call) -> str:
    wanted, workspace = _wanted(call), call.workspace
    return " ".join(f"{workspace.open(run).metrics_version()}-{workspace.info(run).attempt}" for run in wanted)


def compare(call: Call) -> dict[str, Any]:
    from prl.dashboard.comparison import comparison, look_at
    from prl.dashboard.lines import Window
    from prl.rundir.configs import read_configs

    query = call.query
    window = Window(query["axis"], query["start"], query["end"], query["points"])
    keys = query["key"] or ("reward",)
    found = []
    for wanted in _wanted(call):
        run = call.workspace.open(wanted)
        # Read before the metrics, whose lock is held no longer than needed.
        configs = read_configs(run.path)
        with run.metrics() as store:
            found.append(look_at(wanted, run.path.name, configs=configs, store=store, wanted=keys, window=window))
    return head(**comparison(found, query["axis"]))


ROUTES = (
    Route(
        "/api/v1/compare",
        compare,
        "2 to 6 runs side by side: lines of the same series, what differs in their configurations, values at one step",
        "`runs` (with `missing`: what means no series of it), `axis` (time: seconds since the run's first row), "
        "`lines` (`run`, then as of a series), `config` (`total`, `differ`: `key` and a value each run, `{set: false}` "
        "where it has none), `at` (`step`: the last that all have, `rows`), `partial`",
        parameters=(
            Parameter("run", "text", "The id of a run", many=True),
            Parameter(
                "key", "text", "`producer:key`, a key or a meaning (default: reward)", many=True, longest=MAX_KEY
            ),
            AXIS,
            Parameter("start", "number", "Only points from here on, on the axis"),
            Parameter("end", "number", "Only points up to here, on the axis"),
            Parameter("points", "integer", "Points of a line", default=400, minimum=2, maximum=5000),
        ),
        version=_version,
    ),
)
