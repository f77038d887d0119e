"""Console lines of the run contract: ``HH:MM:SS``, the level right-aligned to seven columns, the message.

Files hold no ANSI escapes. The clock carries no date, so a line of its own with the date (``--- 2026-11-29 ---``, UTC
offset included) opens a log and follows each midnight: a reader can date every line without guessing. Levels are
those of the contract; ``SUCCESS`` (25) sits between INFO and WARNING. A component calls :func:`setup_logging` once and
logs to its standard output, which the launcher points at the component's file.
"""

import datetime as dt
import json
import logging
import sys
from typing import Any, Protocol

SUCCESS = 25
LEVELS = ("TRACE", "DEBUG", "INFO", "SUCCESS", "WARNING", "ERROR", "CRITICAL")
DATE_LINE = "--- {date} ---"

logging.addLevelName(SUCCESS, "SUCCESS")


class Stream(Protocol):
    """Where lines go: a file, or whatever draws them."""

    def write(self, text: str, /) -> object: ...
    def flush(self) -> object: ...


def success(logger: logging.Logger, message: str, *args: object) -> None:
    """Log at SUCCESS: a unit of work ended as it should (a step, an evaluation, the run)."""
    logger.log(SUCCESS, message, *args)


class ContractFormatter(logging.Formatter):
    """Formats a record as ``HH:MM:SS   LEVEL message``; at DEBUG level a suffix names the source line."""

    def __init__(self, *, with_source: bool) -> None:
        super().__init__()
        self.with_source = with_source
        self._date = ""

    def format(self, record: logging.LogRecord) -> str:
        now = dt.datetime.fromtimestamp(record.created).astimezone()
        text = f"{now:%H:%M:%S} {record.levelname:>7} {record.getMessage()}"
        if self.with_source:
            text += f" [{record.filename}::{record.lineno}]"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        date = f"{now:%Y-%m-%d %z}"
        if date != self._date:
            self._date = date
            text = DATE_LINE.format(date=date) + "\n" + text
        return text


class JsonFormatter(logging.Formatter):
    """One JSON object per line with the contract's field names (``log.json_logging``)."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "timestamp": dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(),
            "level": record.levelname,
            "message": record.getMessage(),
            "module": record.module,
            "function": record.funcName,
            "line": record.lineno,
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def setup_logging(level: str = "info", *, json_logging: bool = False, stream: Stream | None = None) -> logging.Logger:
    """Route the ``prl`` logger (and warnings of libraries) to ``stream`` (standard output) in the contract's form.

    Returns the ``prl`` logger. Calling it again replaces the earlier handler.
    """
    numeric = logging.getLevelNamesMapping()[level.upper()]
    handler = logging.StreamHandler(stream or sys.stdout)
    handler.setFormatter(JsonFormatter() if json_logging else ContractFormatter(with_source=numeric <= logging.DEBUG))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(numeric, logging.WARNING))
    logger = logging.getLogger("prl")
    logger.setLevel(numeric)
    return logger


def log_fatal(logger: logging.Logger, function: str) -> None:
    """Log the current exception as the contract's crash header ``Fatal error in <function>`` with its traceback."""
    logger.error("Fatal error in %s", function, exc_info=True)
