"""Routes of the API as data: what each takes, how its answer is made, when that changed.

A handler is a plain function from a :class:`Call` to JSON values; it runs in a worker thread, and it raises
:class:`~prl.dashboard.errors.ApiError`. Left out: anything of HTTP, which is :mod:`prl.dashboard.app`.
"""

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from prl.dashboard.parameters import Parameter

if TYPE_CHECKING:
    from prl.dashboard.open_runs import OpenRun
    from prl.dashboard.workspace import Workspace

SCHEMA_VERSION = 1
JSON = "application/json"
PROCESS = secrets.token_hex(3)
"""In every version and ETag: what this process counts says nothing of what the one before it did."""


@dataclass(frozen=True)
class Call:
    """One request that passed validation.

    ``path``: the values of ``{...}`` in the route's path. ``query``: a value for every declared parameter.
    ``body``: of a POST, decoded JSON. ``client``: the id that a browser tab gave itself (header ``Prl-Client``).
    """

    workspace: "Workspace"
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    client: str | None = None

    @cached_property
    def run(self) -> "OpenRun":
        """The run that the path names. Raises ApiError (404)."""
        return self.workspace.open(self.path["run"])


Handler = Callable[[Call], Any]
Version = Callable[[Call], str]


@dataclass(frozen=True)
class Route:
    """One route.

    ``version`` tells cheaply, before the answer is made, which version of it stands; the answer is then made once a
    version, whoever asks, and a client that has it is told so (304). Without one the answer is made at each call and
    its ETag comes from what it says. ``handler`` returns JSON values, an :class:`~prl.dashboard.answers.Answer` or a
    :class:`Download`. ``quick``: the handler answers from memory, within a millisecond or so, and needs no thread: it
    answers also while all threads wait for disks. ``about`` is the summary and ``answer`` describes the fields, both
    for the OpenAPI document.
    """

    path: str
    handler: Handler
    about: str
    answer: str = ""
    parameters: tuple[Parameter, ...] = ()
    version: Version | None = None
    method: str = "GET"
    body: Mapping[str, Any] | None = None
    """JSON schema of the body of a POST."""
    quick: bool = False
    has_head: bool = True
    """Whether the answer opens with the fields of :func:`head`; else its form is laid down elsewhere."""
    media_types: tuple[str, ...] = (JSON,)
    """What the answer may be."""


@dataclass(frozen=True)
class Download:
    """An answer in pieces, saved by a browser under a name."""

    pieces: Any
    name: str
    media_type: str


def head(**fields: Any) -> dict[str, Any]:
    """The fields that open every answer of ``/api/v1``, then ``fields``. ``as_of`` is Unix seconds."""
    return {"schema_version": SCHEMA_VERSION, "as_of": round(time.time(), 3), "ok": True, **fields}
