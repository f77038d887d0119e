"""How an attempt was started."""

import json
from pathlib import Path
from typing import Any

import pytest

from prl.rundir.configs import read_configs
from prl.rundir.locate import locate
from prl.watch.launches import launch_facts
from prl.watch.surroundings import Launch
from sample_runs import SampleRun


def launch(run: SampleRun, ports: dict[str, int] | None = None, script: str | None = None) -> Launch | None:
    return launch_facts(locate(run.root), read_configs(run.root), ports or {}, script)


def test_command_and_surroundings(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    surroundings = {"cwd": "/p", "python": {"interpreter": "/p/.venv/bin/python"}, "host": {"name": "n1"}}
    (run.configs / "environment.json").write_text(json.dumps(surroundings))
    assert launch(run, {"inference": 8000, "engine": 8100}, "launcher/rl.sbatch") == Launch(
        command="rl @ rl.toml",
        command_source="configs/attempt_1/command.txt",
        cwd="/p",
        interpreter="/p/.venv/bin/python",
        host="n1",
        source="configs/attempt_1/environment.json",
        ports=[8000, 8100],
        script="launcher/rl.sbatch",
    )


def test_ports_of_the_configuration_where_no_launcher_tells_them(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    run.write_resolved(
        inference={"server": {"host": "0.0.0.0", "port": 8000}, "backend_port": 8100},
        orchestrator={"client": {"base_url": "http://127.0.0.1:9000/v1"}, "other": {"base_url": "http://n7:1/v1"}},
        trainer={"ports": [{"port": 5555}, {"port": "5556"}, {"port": True}, {"port": 70000}]},
    )
    run.env_config.with_suffix(".address").write_text("tcp://127.0.0.1:40001")
    found = launch(run)
    assert found is not None
    assert found.ports == [5555, 8000, 8100, 9000, 40001]
    assert (found.cwd, found.source) == (None, None)


@pytest.mark.parametrize("document", [{"python": 3, "cwd": 7, "host": "n1"}, {}])
def test_surroundings_of_any_shape(tmp_path: Path, document: Any) -> None:
    run = SampleRun(tmp_path)
    (run.configs / "environment.json").write_text(json.dumps(document))
    found = launch(run)
    assert found is not None
    assert (found.cwd, found.interpreter, found.host) == (None, None, None)


def test_nothing_was_left(tmp_path: Path) -> None:
    assert launch_facts(locate(tmp_path), read_configs(tmp_path), {}, None) is None
