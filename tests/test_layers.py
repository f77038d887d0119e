"""The import contracts of the project hold, and what must start fast imports nothing heavy."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

HEAVY = ("torch", "transformers", "verifiers", "renderers", "pydantic", "zmq", "aiohttp", "numpy", "rich", "starlette")


def test_import_contracts() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_watch_side_starts_light() -> None:
    # `prl status` runs in scripts and shell prompts: 0.3 s for its imports, which numpy alone would double.
    code = f"import sys, prl.rundir, prl.watch, prl.cli.main; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
