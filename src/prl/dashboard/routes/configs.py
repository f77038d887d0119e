"""What runs were configured with, and what differs."""

from typing import Any

from prl.dashboard import signs
from prl.dashboard.open_runs import OpenRun
from prl.dashboard.parameters import Parameter
from prl.dashboard.routing import Call, Route, head

MAX_ATTEMPT = 10**12
_SECONDS = 1.0
"""How old a look at the files may be: configurations are written when an attempt begins."""


def configs(call: Call) -> dict[str, Any]:
    from prl.dashboard import run_configs

    return head(**run_configs.configs(call.run.path, call.query["attempt"]))


def configs_version(call: Call) -> str:
    return _sign(call.run)


def _sign(run: OpenRun) -> str:
    return run.remembered("configs sign", _SECONDS, lambda: signs.configs_sign(run.path))


def config_diff(call: Call) -> dict[str, Any]:
    from prl.dashboard import run_configs

    sides = []
    for parameter in ("a", "b"):
        wanted, attempt = run_configs.split_target(parameter, call.query[parameter])
        sides.append(run_configs.read(call.workspace.open(wanted).path, attempt))
    return head(
        a={"run": call.query["a"], "attempt": sides[0].attempt},
        b={"run": call.query["b"], "attempt": sides[1].attempt},
        **run_configs.differences(*sides),
    )


def config_diff_version(call: Call) -> str:
    from prl.dashboard import run_configs

    wanted = (run_configs.split_target(parameter, call.query[parameter])[0] for parameter in ("a", "b"))
    return ".".join(_sign(call.workspace.open(run)) for run in wanted)


ROUTES = (
    Route(
        "/api/v1/runs/{run}/configs",
        configs,
        "What an attempt was configured with, secrets masked",
        "`attempt` (null: a layout without attempts), `attempts`, `command`, `cwd`, `files` (`name`, `text` as "
        "written), `documents` (by component, resolved), `addresses` (of environment servers), `environment`, "
        "`trouble`",
        parameters=(
            Parameter("attempt", "integer", "The attempt; default: the newest", minimum=0, maximum=MAX_ATTEMPT),
        ),
        version=configs_version,
    ),
    Route(
        "/api/v1/config-diff",
        config_diff,
        "What differs between the resolved configurations of two attempts, of one run or of two",
        "`rows` (`key`, `keys`, `before`, `after`, `kind`: added, removed or changed), `counts`, `truncated`",
        parameters=(
            Parameter("a", "text", "RUN or RUN:attempt", required=True),
            Parameter("b", "text", "RUN or RUN:attempt", required=True),
        ),
        version=config_diff_version,
    ),
)
