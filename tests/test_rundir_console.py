"""Console lines as the run contract fixes them."""

import datetime as dt
import io
import json
import logging
import re

from prl.rundir.logs.console import SUCCESS, ContractFormatter, log_fatal, setup_logging, success

# The header pattern of the contract, applied to the line after ANSI stripping.
HEADER = re.compile(
    r"^(?P<clock>\d{2}:\d{2}:\d{2})\s+(?P<level>TRACE|DEBUG|INFO|SUCCESS|WARNING|ERROR|CRITICAL) (?P<msg>.*)$"
)


def record(level: int, message: str, when: float) -> logging.LogRecord:
    made = logging.LogRecord("prl.x", level, "file.py", 7, message, None, None)
    made.created = when
    return made


def test_lines_carry_clock_level_and_message_without_escapes() -> None:
    stream = io.StringIO()
    logger = setup_logging("info", stream=stream)
    success(logger, "Step %d", 3)
    logger.debug("unseen")
    date, line = stream.getvalue().splitlines()
    assert re.fullmatch(r"--- \d{4}-\d{2}-\d{2} [+-]\d{4} ---", date)
    match = HEADER.match(line)
    assert match
    assert (match["level"], match["msg"]) == ("SUCCESS", "Step 3")
    assert "\x1b" not in stream.getvalue()


def test_a_new_day_gets_a_date_line() -> None:
    formatter = ContractFormatter(with_source=False)
    evening = dt.datetime(2026, 1, 1, 23, 59, 59).astimezone().timestamp()
    lines = [formatter.format(record(SUCCESS, "x", evening + s)) for s in (0, 0.5, 2)]
    assert [line.count("---") for line in lines] == [2, 0, 2]
    assert lines[2].startswith("--- 2026-01-02")


def test_fatal_header_is_followed_by_the_traceback() -> None:
    stream = io.StringIO()
    logger = setup_logging("info", stream=stream)
    try:
        raise ValueError("made up")
    except ValueError:
        log_fatal(logger, "train")
    lines = stream.getvalue().splitlines()
    assert lines[1].endswith("ERROR Fatal error in train")
    assert lines[-1] == "ValueError: made up"


def test_json_lines_hold_the_contract_fields() -> None:
    stream = io.StringIO()
    setup_logging("info", json_logging=True, stream=stream).warning("späť %s", 1)
    line = json.loads(stream.getvalue())
    assert {"timestamp", "level", "message", "module", "function", "line"} <= set(line)
    assert line["message"] == "späť 1"
