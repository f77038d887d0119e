"""The orchestrator as the process that the launcher starts."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from orchestrator_fakes import DEADLINE, Play, World, world


def start(run: World, run_dir: Path) -> "subprocess.Popen[str]":
    path = run_dir / "orchestrator.json"
    path.write_text(run.config.model_dump_json())
    command = [sys.executable, "-m", "prl.cli.orchestrator", "@", str(path)]
    environment = {**os.environ, "SPT_NOENV": "1"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True
    )


def finish(process: "subprocess.Popen[str]") -> str:
    try:
        return process.communicate(timeout=DEADLINE)[0]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def test_a_run_ends_with_zero_and_leaves_its_records(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        process = start(w, tmp_path)
        output = finish(process)
    assert process.returncode == 0, output
    assert " SUCCESS Orchestrator finished" in output.splitlines()[-1]
    assert "\x1b" not in output
    monitor = tmp_path / "monitors" / "file"
    rows = [json.loads(line) for line in (monitor / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if row["step"] is not None]
    assert [row["step"] for row in steps] == [1, 2, 3, 4] and {row["producer"] for row in rows} == {"orch"}
    index = [json.loads(line) for line in (monitor / "traces" / "stream.index.jsonl").read_text().splitlines()]
    assert len(index) >= 32 and {row["env"] for row in index} == {"made-up"}


def test_a_crash_is_named_and_exits_with_one(tmp_path: Path) -> None:
    with world(tmp_path, refuse=500) as w:
        process = start(w, tmp_path)
        output = finish(process)
    assert process.returncode == 1, output
    header = output.index("Fatal error in run_orchestrator")
    assert "ERROR" in output[:header].splitlines()[-1] + output[header - 10 : header]
    assert "EngineError: " in output.splitlines()[-1] and "500: checksum differs" in output.splitlines()[-1]


def test_a_signal_ends_it_quickly_with_one(tmp_path: Path) -> None:
    with world(tmp_path, lambda n, request: Play(hang=True)) as w:
        process = start(w, tmp_path)
        deadline = time.monotonic() + DEADLINE
        while not w.env.requests and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        output = finish(process)
    assert process.returncode == 1, output
    assert "WARNING Orchestrator was interrupted by SIGTERM" in output
    assert "Traceback" not in output


def test_a_wrong_configuration_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(json.dumps({"batch_size": 7, "nonsense": 1}))
    command = [sys.executable, "-m", "prl.cli.orchestrator", "@", str(tmp_path / "bad.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 64
    assert "nonsense" in done.stdout + done.stderr


def test_it_imports_nothing_heavy() -> None:
    code = (
        "import sys, prl.orchestrator.process; print(sorted({'torch', 'transformers', 'verifiers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE, check=True)
    assert done.stdout.strip() == "[]"
