"""prl: asynchronous reinforcement learning of language models that knows how each run is doing.

Importing the package imports nothing else: the run side (torch, verifiers) and the watch side (files only) are
entered through their own packages. ``docs/architecture.md`` draws the house.
"""

__version__ = "0.1.0"
