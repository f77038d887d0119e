"""``python -m prl.dashboard [DIR ...] [--port N]``: serves the pages on loopback, in the foreground, and nothing else.

The ``dashboard`` command adds what a daemon needs: finding one that runs, the next free port, the registry.
"""

import argparse
from pathlib import Path

import uvicorn

from prl.dashboard.app import create_app
from prl.dashboard.workspace import Workspace


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m prl.dashboard", description=__doc__)
    parser.add_argument("dirs", nargs="*", type=Path, default=[Path("outputs")])
    parser.add_argument("--port", type=int, default=7788)
    arguments = parser.parse_args()
    workspace = Workspace(arguments.dirs, url=f"http://localhost:{arguments.port}")
    workspace.start()
    try:
        uvicorn.run(create_app(workspace), port=arguments.port, log_level="warning", lifespan="off", ws="none")
    finally:
        workspace.close()


if __name__ == "__main__":
    main()
