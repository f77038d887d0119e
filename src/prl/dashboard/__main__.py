"""``python -m prl.dashboard [DIR ...] [--port N]``: serves the pages on loopback, in the foreground, and nothing else.

The ``dashboard`` command adds what a daemon needs: finding one that runs, and the registry.
"""

import argparse
from pathlib import Path

from prl.dashboard.daemon import PORT, Settings, serve


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m prl.dashboard", description=__doc__)
    parser.add_argument("dirs", nargs="*", type=Path, default=[Path("outputs")])
    parser.add_argument("--port", type=int, default=PORT, help="the next free one is taken when it is not")
    arguments = parser.parse_args()
    serve(Settings(tuple(arguments.dirs), port=arguments.port, isolated=True), announce=print)


if __name__ == "__main__":
    main()
