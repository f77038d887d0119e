"""From a command line to a validated configuration: ``rl @ a.toml @ b.toml --orchestrator.batch_size 64``.

The syntax is that of prime-pydantic-config. Errors are printed to standard error with key, value and what is allowed.
"""

import sys
from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel
from pydantic_config import ConfigFileError, cli

USAGE_EXIT = 64
"""Exit status of a command that was configured wrongly (``EX_USAGE`` of sysexits.h)."""

Config = TypeVar("Config", bound=BaseModel)


def load_config(cls: type[Config], args: Sequence[str] | None = None, *, prog: str, description: str = "") -> Config:
    """Parse ``args`` (default: the process's) into ``cls``. Raises ``SystemExit(64)`` with a message when it cannot."""
    given = list(sys.argv[1:] if args is None else args)
    try:
        # Its overloads leave out prog and description, which the implementation takes.
        return cli(cls, args=given, prog=prog, description=description or None)  # type: ignore[call-overload, no-any-return]
    except ConfigFileError as error:
        print(f"{prog}: {error}\n{prog}: nothing was started. `{prog} --help` lists every key.", file=sys.stderr)
        raise SystemExit(USAGE_EXIT) from None
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise SystemExit(USAGE_EXIT) from None
