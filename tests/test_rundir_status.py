from pathlib import Path

from prl.rundir.status import RUNNING, LauncherStatus, ProcessStatus, read_status


def make() -> LauncherStatus:
    process = ProcessStatus("trainer", "PRL::Trainer", 42, "host", 1000.5, "logs/attempt_1/trainer.log", exit_code=-9)
    return LauncherStatus("id", "name", "rl", 1, RUNNING, "host", 41, 1000.0, 1002.0, processes=[process])


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    make().write(path)
    assert read_status(path) == make()
    assert [entry.name for entry in tmp_path.iterdir()] == ["status.json"]


def test_what_cannot_be_read_is_none_and_unknown_fields_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    assert read_status(path) is None
    for text in ("", "{", "[]", "null", '{"phase": "running"}', '{"processes": [3]}'):
        path.write_text(text)
        assert read_status(path) is None
    make().write(path)
    path.write_text(path.read_text().replace('"run_id"', '"of_a_later_version": 1, "run_id"'))
    assert read_status(path) == make()
