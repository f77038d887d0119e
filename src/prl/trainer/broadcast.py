"""Publishing the policy's weights, version after version."""

from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from prl.config.common import WeightBroadcastConfig
from prl.trainer.parallel import World
from prl.trainer.weights import WEIGHTS_FILE, full_state, write_weights
from prl.transport.weights import WeightSender


class Broadcaster:
    """Gathers the weights on the main rank and hands them over there. Every method is collective."""

    def __init__(self, directory: Path, config: WeightBroadcastConfig, world: World) -> None:
        self.directory = directory
        self._world = world
        self._sender = WeightSender(directory, config) if world.is_main else None

    def publish(self, version: int, model: Any) -> None:
        """Publish the model's weights as ``version``. Raises TimeoutError when no receiver acknowledges it."""
        state = full_state(model, self._world)
        if self._sender is not None:
            self._sender.send(version, partial(_write, state))


def _write(state: dict[str, Tensor], directory: Path) -> None:
    write_weights(directory / WEIGHTS_FILE, state)
