"""A trainer rank as a process."""

import os
import subprocess
import sys


def test_a_rank_that_is_done_is_not_undone_by_its_teardown() -> None:
    """What runs at the interpreter's end may abort the process: of several ranks, one that finished stays finished."""
    code = "import atexit, os; atexit.register(os.abort); from prl.trainer.process import end; print('done'); end(0)"
    ended = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"WORLD_SIZE": "2"}, capture_output=True, text=True, timeout=120
    )
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
