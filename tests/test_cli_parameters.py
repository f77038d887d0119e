"""Times as people type them."""

from datetime import UTC, datetime

import click
import pytest

from prl.cli.parameters import Moment

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC).timestamp()


def test_a_date_is_in_utc_unless_it_says_otherwise() -> None:
    assert Moment().convert("2026-11-29T12:00", None, None) == NOON
    assert Moment().convert("2026-11-29T14:00+02:00", None, None) == NOON
    assert Moment(local=True).convert("2026-11-29T14:00+02:00", None, None) == NOON
    assert Moment().convert(str(NOON), None, None) == NOON


def test_a_local_time_is_this_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "UTC-2")  # two hours east
    time.tzset()
    try:
        assert Moment(local=True).convert("2026-11-29T14:00", None, None) == NOON
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_clock_is_the_last_time_it_showed_that() -> None:
    for moment in (Moment(), Moment(local=True)):
        ago = datetime.now(UTC).timestamp() - moment.convert("9:30", None, None)
        assert 0 <= ago <= 86400 + 1
    assert datetime.fromtimestamp(Moment().convert("9:30:15", None, None), UTC).strftime("%T") == "09:30:15"


def test_so_long_ago() -> None:
    now = datetime.now(UTC).timestamp()
    assert Moment().convert("1h30m", None, None) == pytest.approx(now - 5400, abs=5)


@pytest.mark.parametrize("text", ["yesterday", "25:00", "2026-13-01", "10x", ""])
def test_what_is_no_time_is_a_wrong_call(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no time"):
        Moment().convert(text, None, None)
