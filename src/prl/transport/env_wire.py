"""Requests to an environment server: the wire of verifiers 0.4.0 with two methods more.

A client (DEALER) sends ``[request_id, method, msgpack(body)]``; the server (ROUTER) answers ``[request_id, kind,
msgpack(body)]`` with ``kind`` = ``delta`` (any number, of a ``run``) or ``reply`` (exactly one). Every reply holds
``success`` and, when that is false, ``error`` = ``"<Type>: <message>"``.

==========  =====================================  ================================================================
method      body                                   reply
==========  =====================================  ================================================================
health      ``{}``                                 ``{success}``: at least one worker can play
run         ``{task_data, client, model,           deltas, then ``{success, head, traces: [{id, nodes, calls}]}``
            sampling}``
cancel      ``{request_id}``                       ``{success, cancelled}``
tasks       ``{offset, limit}``                    ``{success, type, total, tasks: [task data]}`` (ours)
stats       ``{}``                                 ``{success, ...}``, the fields of :class:`EnvServerStats` (ours)
==========  =====================================  ================================================================

``tasks`` lets the orchestrator own the order of tasks without importing an environment. A failed worker's requests are
answered with an error of type :data:`WORKER_DIED`.
"""

import msgspec

HEALTH = b"health"
RUN = b"run"
CANCEL = b"cancel"
TASKS = b"tasks"
STATS = b"stats"

DELTA = b"delta"
REPLY = b"reply"

WORKER_DIED = "EnvWorkerDied"
"""Error type of an episode whose worker process ended under it."""


class LagStats(msgspec.Struct, frozen=True):
    """Event-loop lag over the last interval, seconds: how late a short sleep returned."""

    min: float = 0.0
    mean: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    max: float = 0.0
    n: int = 0


class EnvServerStats(msgspec.Struct, frozen=True):
    """State of an environment server, over its last interval."""

    workers: int
    """Live workers that can play."""
    configured_workers: int
    active: list[int]
    """Episodes running now, per worker (0 for a worker that is being replaced)."""
    restarts: int
    """Workers replaced since the server started."""
    lag: LagStats
    """The worst of the workers' event loops, statistic by statistic."""


def error_type(error: str) -> str:
    """The ``Type`` of an error text ``"<Type>: <message>"``; the text itself when it has no such head."""
    head = error.split(":", 1)[0].strip()
    return head if head.isidentifier() else "EnvServerError"
