"""The user's home, also for a user who has none: an id without a name in a container, and no ``HOME``."""

from pathlib import Path

NOWHERE = Path("/dev/null")
"""Below it nothing is and nothing can be: a reader finds no file, a writer gets an OSError that names it."""


def home() -> Path:
    """The user's home, :data:`NOWHERE` where none can be told."""
    try:
        return Path.home()
    except RuntimeError:
        return NOWHERE
