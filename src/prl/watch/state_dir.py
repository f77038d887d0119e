"""Where the watch side keeps what it must remember between calls: outside run directories, for this user alone."""

import os
from pathlib import Path

from prl.rundir.home import home


def state_dir() -> Path:
    """``$PRL_STATE_DIR``, else ``prl`` below ``$XDG_STATE_HOME``, else ``~/.local/state/prl``. It may not exist."""
    own = os.environ.get("PRL_STATE_DIR")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_STATE_HOME") or home() / ".local" / "state") / "prl"
