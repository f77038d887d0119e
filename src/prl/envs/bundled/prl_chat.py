"""Makes the chat harness loadable by its id: verifiers imports the top-level module ``prl_chat`` for ``prl-chat``."""

from prl.envs.harness import ChatHarness

__all__ = ["ChatHarness"]
