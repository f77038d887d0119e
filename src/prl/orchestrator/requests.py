"""What an environment server is asked with: the policy's address and how to sample from it."""

from typing import Any

import msgspec

from prl.config.orchestrator import OrchestratorConfig
from prl.rundir.layout import RunLayout


class RequestBuilder:
    """The parts of a ``run`` request that do not depend on the task.

    ``cache_salt`` is the policy version at which the group was opened: an engine's prefix cache must not serve keys and
    values that older weights computed.
    """

    def __init__(self, config: OrchestratorConfig) -> None:
        self.model = config.model.name
        self._sampling = config.train.sampling
        self.count = 0
        """Requests made so far; the seed of the next one is this far from the first one's."""
        tokenizer = RunLayout(config.output_dir).tokenizer
        client = {
            "type": "train",
            "base_url": config.model.client.base_url,
            "api_key_var": config.model.client.api_key_var,
            "renderer": config.model.renderer,
            "renderer_model_name": str(tokenizer.resolve()) if tokenizer.is_dir() else config.model.name,
        }
        self.client = msgspec.Raw(msgspec.msgpack.encode(client))

    def sampling(self, version: int) -> dict[str, Any]:
        """Settings of the next request, for a group opened at ``version``."""
        settings: dict[str, Any] = {
            "temperature": self._sampling.temperature,
            "extra_body": {**self._sampling.extra_body, "cache_salt": str(version)},
        }
        if self._sampling.max_completion_tokens is not None:
            settings["max_completion_tokens"] = self._sampling.max_completion_tokens
        if self._sampling.seed is not None:
            settings["seed"] = self._sampling.seed + self.count
        self.count += 1
        return settings
