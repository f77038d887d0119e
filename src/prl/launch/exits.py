"""Exit statuses of a launcher, and the exception by which a launch is refused before anything has started."""

import os

OK = 0
COMPONENT_FAILED = 1
CONFIGURATION = os.EX_USAGE
RUN_DIRECTORY = os.EX_DATAERR
SIGNALLED = 128
"""Plus the number of the signal: 130 for an interrupt, 143 for SIGTERM."""


class RefusedError(Exception):
    """The launch cannot go on as asked. The message says what was found and what to do."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code
