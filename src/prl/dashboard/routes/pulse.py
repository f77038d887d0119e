"""The one question that every tab asks again and again: what changed, and does an agent point somewhere."""

from typing import Any

from prl.dashboard import signs
from prl.dashboard.errors import ApiError
from prl.dashboard.open_runs import OpenRun
from prl.dashboard.parameters import Parameter
from prl.dashboard.routing import PROCESS, Call, Route, head
from prl.rundir.locate import metrics_path

_SECONDS = 0.5
"""How old a sign may be: tabs that ask within that time share it."""
_LOGS_SECONDS = 1.0
_WITH_METRICS = ("overview", "metrics")
_WITH_EPISODES = ("traces",)
MAX_CLIENT = 100


def pulse(call: Call) -> dict[str, Any]:
    workspace, wanted = call.workspace, call.query["run"]
    found, judge = workspace.runs(), workspace.judge
    command = None
    if call.client is not None and call.query["following"]:
        command = workspace.tabs.seen(call.client[:MAX_CLIENT])
    told, gone = None, None
    if wanted is not None:
        try:
            told = _run(call, wanted)
        except ApiError as error:
            if error.status not in (404, 410):
                raise
            gone = error.message
    return head(runs=f"{found.version}.{judge.version}.{PROCESS}", run=told, gone=gone, view=command)


def _run(call: Call, wanted: str) -> dict[str, Any]:
    workspace, page = call.workspace, call.query["page"]
    run, info = workspace.open(wanted), workspace.info(wanted)
    judged = workspace.judge.look_at(info)
    verdict = judged.version if judged is not None else None
    versions = {
        "metrics": _metrics(run, page),
        "episodes": _episodes(run, page),
        "live": run.remembered("live sign", _SECONDS, lambda: signs.live_sign(run.path)),
        "logs": run.remembered("logs sign", _LOGS_SECONDS, lambda: signs.logs_sign(run.path)),
        "verdict": verdict,
        "header": f"{hash(info) & 0xFFFFFFFF:x}.{verdict}",
    }
    return {"id": wanted, **{name: f"{value}.{PROCESS}" for name, value in versions.items()}}


def _metrics(run: OpenRun, page: str | None) -> str:
    """What metrics are read as changes with what was read, which a page that shows them must know."""
    if page in _WITH_METRICS:
        return run.metrics_version()
    return run.remembered("metrics sign", _SECONDS, lambda: signs.metrics_sign(metrics_path(run.path)))


def _episodes(run: OpenRun, page: str | None) -> str:
    if page in _WITH_EPISODES:
        return run.episodes_version()
    return run.remembered("episodes sign", _SECONDS, lambda: signs.episodes_sign(run.path))


ROUTES = (
    Route(
        "/api/v1/pulse",
        pulse,
        "What changed since the last time, and where an agent points. Each tab asks every other second",
        "`runs`: version of the list; `run`: versions of the `metrics`, `episodes`, `live`, `logs`, `verdict` and "
        "`header` of the run (each another text when that part changed), null without one; `gone`: why the run that "
        "was asked for is not there; `view`: `seq` and `command` of the last `POST /api/v1/view` since the tab came, "
        "or null.",
        (
            Parameter("run", "text", "The run that is shown."),
            Parameter("page", "text", "The page that is shown."),
            Parameter("following", "flag", "Whether the tab obeys view commands: only then it counts.", default=True),
        ),
    ),
)
