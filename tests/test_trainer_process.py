"""A trainer rank as a process."""

import os
import subprocess
import sys


def test_a_rank_that_is_done_is_not_undone_by_its_teardown() -> None:
    """What runs at the interpreter's end may abort the process: of several ranks, one that finished stays finished."""
    code = "import atexit, os; atexit.register(os.abort); from prl.trainer.process import end; print('done'); end(0)"
    environment = os.environ | {"WORLD_SIZE": "2"}
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
