"""The chat harness: one model turn per segment, played inside the environment worker's own event loop.

verifiers asks of a harness only that every model call goes through the interception endpoint. The harnesses it ships
start a Python process per rollout (about a second of CPU); this one posts the conversation itself, so a rollout costs
milliseconds. Games with several turns are driven by an environment's ``interaction()``: each turn resumes here with
the whole conversation as its messages. Tools are left out: they need a process to run in.

Inside a worker the call does not travel over HTTP at all (:mod:`prl.envs.loopback`). Elsewhere, for example under
verifiers' own command line, it is a plain request to the interception server.
"""

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import aiohttp
import orjson
from verifiers.v1.configs.harness import HarnessConfig
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.errors import HarnessError
from verifiers.v1.harness import Harness
from verifiers.v1.runtimes import ProgramResult

HARNESS_ID = "prl-chat"
"""The id by which verifiers finds this harness: the bundled module ``prl_chat``."""

Post = Callable[[str, str, dict[str, Any]], Awaitable[tuple[int, bytes]]]
"""``post(endpoint, secret, body) -> (HTTP status, response body)`` of a chat completion."""


async def post_over_http(endpoint: str, secret: str, body: dict[str, Any]) -> tuple[int, bytes]:
    """Ask the interception server at ``endpoint`` (ends in ``/v1``) over HTTP. Raises ``aiohttp.ClientError``.

    The session lives for one call: verifiers gives a harness no hook at which a longer-lived one could be closed.
    """
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None, sock_connect=30)) as session,
        session.post(f"{endpoint}/chat/completions", data=orjson.dumps(body), headers=headers) as response,
    ):
        return response.status, await response.read()


class ChatHarnessConfig(HarnessConfig):
    """The chat harness has no keys of its own."""

    id: str = HARNESS_ID


class ChatHarness(Harness[ChatHarnessConfig]):
    """Plays one model turn on the task's prompt, or on the conversation so far. Starts no process."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False
    IN_PROCESS: ClassVar[bool] = True
    """Read by :mod:`prl.envs.seats`: a rollout starts no child process."""

    post: ClassVar[Post] = staticmethod(post_over_http)
    """How a completion is asked for. A worker replaces it by a call inside the process."""

    async def launch(  # noqa: PLR0917 - verifiers' signature
        self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str, mcp_urls: dict[str, str], data: Any
    ) -> ProgramResult:
        """One turn. Raises HarnessError when the model call failed; verifiers then reports the call's own error."""
        system, prompt = self.resolve_prompt(data)
        messages = [] if system is None else [{"role": "system", "content": system}]
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages.extend(message_to_wire(message) for message in prompt or [])
        status, reply = await type(self).post(endpoint, secret, {"model": ctx.model, "messages": messages})
        if status >= 400:
            raise HarnessError(f"model call answered {status}: {reply[:500].decode(errors='replace')}")
        return ProgramResult(exit_code=0, stdout="", stderr="")
