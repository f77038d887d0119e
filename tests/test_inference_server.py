"""The server as a process on loopback: its routes, its refusals, weights in flight, its console and its end."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch

from conftest import require_tool
from engine_models import reference_logprobs, shaken_model, weight_directory
from prl.config.inference import InferenceConfig
from prl.inference.architecture import UnsupportedModelError
from prl.inference.server import load_model
from prl.inference.sockets import PortError, take_port
from prl.inference.tokenizer import TokenizerError
from prl.rundir.broadcasts import write_manifest
from prl.trainer.tiny import byte_tokenizer

DEADLINE = 60.0
END = 258
"""``<|im_end|>``, the stop token of tiny models."""


@dataclass
class Server:
    process: subprocess.Popen[bytes]
    port: int
    engine_port: int
    log: Path

    def request(self, path: str, body: object = None, *, admin: bool = False) -> tuple[int, Any]:
        """Status and body, decoded when it is JSON. A body makes it a POST."""
        port = self.engine_port if admin else self.port
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=data)
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE) as response:
                status, raw = response.status, response.read()
        except urllib.error.HTTPError as error:
            status, raw = error.code, error.read()
        try:
            return status, json.loads(raw)
        except ValueError:
            return status, raw.decode()

    def generate(self, token_ids: list[int], **sampling: object) -> dict[str, Any]:
        body = {"model": "policy", "token_ids": token_ids, "sampling_params": {"logprobs": 1, **sampling}}
        status, answer = self.request("/inference/v1/generate", body)
        assert status == 200, answer
        choice: dict[str, Any] = answer["choices"][0]
        return choice

    def wait_healthy(self) -> None:
        deadline = time.monotonic() + DEADLINE
        while True:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            try:
                if self.request("/health", admin=True)[0] == 200:
                    return
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.02)

    def wait_for(self, text: str) -> str:
        """The log, once it holds ``text``."""
        deadline = time.monotonic() + DEADLINE
        while text not in (log := self.log.read_text()):
            assert time.monotonic() < deadline, log
            time.sleep(0.02)
        return log

    def metric(self, name: str) -> float:
        page = self.request("/metrics", admin=True)[1]
        return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(f"vllm:{name}{{"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def start(run: Path, model: Path, *options: str, code: str = "") -> Iterator[Server]:
    """The command with a resolved configuration, as a launcher starts it. ``code`` runs in its process before."""
    port, engine_port = free_port(), free_port()
    config = {
        "server": {"port": port},
        "backend_port": engine_port,
        "model": {"name": str(model)},
        "output_dir": str(run),
        "log": {"level": "debug"},
        "engine": {"max_num_seqs": 16},
    }
    path = run / "inference.json"
    path.write_text(json.dumps(config))
    log = run / "inference.log"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-c", f"{code}\nfrom prl.cli.inference import main\nmain()", "@", str(path), *options]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)
    try:
        yield Server(process, port, engine_port, log)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tied model: the case in which a head is easily left behind by an update."""
    return shaken_model(tmp_path_factory.mktemp("models") / "policy", tied=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Iterator[Server]:
    with start(tmp_path_factory.mktemp("run"), model) as running:
        running.wait_healthy()
        yield running
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(DEADLINE) == 0


def check_logprobs(directory: Path, prompt: list[int], choice: dict[str, Any], temperature: float) -> None:
    tokens = choice["token_ids"]
    content = choice["logprobs"]["content"]
    assert [entry["token"] for entry in content] == [f"token_id:{token}" for token in tokens]
    reference = reference_logprobs(directory, prompt + tokens, temperature)[len(prompt) - 1 : -1]
    expected = reference.gather(1, torch.tensor(tokens)[:, None])[:, 0]
    got = torch.tensor([entry["logprob"] for entry in content])
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=0)


def test_both_ports_serve_health_and_models(server: Server, model: Path) -> None:
    for admin in (False, True):
        assert server.request("/health", admin=admin) == (200, "")
        status, answer = server.request("/v1/models", admin=admin)
        assert status == 200
        assert [(card["id"], card["max_model_len"]) for card in answer["data"]] == [(str(model), 512), ("policy", 512)]
    assert server.request("/liveness", admin=True) == (200, {"status": "alive"})
    assert server.request("/metrics")[0] == 404, "the data plane has no admin routes"
    assert server.request("/pause", {})[0] == 404
    assert psutil.Process(server.process.pid).cmdline()[0].startswith("PRL::Inference")


def test_generate_answers_as_a_training_client_checks_it(server: Server, model: Path) -> None:
    prompt = [72, 105, 257]
    body = {
        "model": str(model),
        "token_ids": prompt,
        "sampling_params": {
            "temperature": 0.7,
            "max_tokens": 12,
            "seed": 3,
            "stop_token_ids": [END],
            "logprobs": 1,
            "skip_special_tokens": False,
        },
        "cache_salt": "17",
    }
    status, answer = server.request("/inference/v1/generate", body)
    assert status == 200
    assert set(answer) == {"request_id", "choices"}
    (choice,) = answer["choices"]
    assert choice["index"] == 0
    assert choice["finish_reason"] in ("stop", "length")
    assert choice["weight_versions"][0]["start"] == 0
    assert choice["weight_versions"][-1]["end"] == len(choice["token_ids"])
    check_logprobs(model, prompt, choice, 0.7)
    again = server.request("/inference/v1/generate", body)[1]["choices"][0]
    assert again["token_ids"] == choice["token_ids"]
    assert again["logprobs"]["content"] == choice["logprobs"]["content"]


def test_max_tokens_defaults_to_the_remaining_context_and_is_cut_to_it(server: Server) -> None:
    prompt = [65] * 480
    for sampling in ({}, {"max_tokens": 9999}):
        choice = server.generate(prompt, ignore_eos=True, **sampling)
        assert (len(choice["token_ids"]), choice["finish_reason"]) == (32, "length")


def test_a_sampled_stop_token_is_the_last_token(server: Server) -> None:
    free = server.generate([1, 2, 3], seed=11, max_tokens=30, ignore_eos=True)["token_ids"]
    stop = free[6]
    choice = server.generate([1, 2, 3], seed=11, max_tokens=30, ignore_eos=True, stop_token_ids=[stop])
    assert choice["token_ids"] == free[: free.index(stop) + 1]
    assert choice["finish_reason"] == "stop"


def test_chat_writes_the_template_and_reads_the_text(server: Server) -> None:
    messages = [{"role": "user", "content": "abc"}]
    body = {
        "model": "policy",
        "messages": messages,
        "max_completion_tokens": 6,
        "n": 3,
        "seed": 1,
        "logprobs": True,
        "return_token_ids": True,
    }
    status, answer = server.request("/v1/chat/completions", body)
    assert status == 200
    tokenizer = byte_tokenizer(512)
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
    assert answer["prompt_token_ids"] == prompt
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert len({tuple(choice["token_ids"]) for choice in answer["choices"]}) == 3
    for choice in answer["choices"]:
        ids = choice["token_ids"]
        spoken = ids[:-1] if choice["finish_reason"] == "stop" else ids
        assert choice["message"] == {
            "role": "assistant",
            "content": tokenizer.decode(spoken, skip_special_tokens=True),
        }
        assert len(choice["logprobs"]["content"]) == len(ids)
    sampled = sum(len(choice["token_ids"]) for choice in answer["choices"])
    assert answer["usage"] == {
        "prompt_tokens": len(prompt),
        "completion_tokens": sampled,
        "total_tokens": len(prompt) + sampled,
    }


@pytest.mark.parametrize("prompt", ["ab", [97, 98], ["ab", "cd"], [[97, 98], [99, 100]]])
def test_completions_take_text_and_token_ids(server: Server, prompt: Any) -> None:
    body = {"prompt": prompt, "temperature": 0, "max_tokens": 4, "logprobs": 1, "return_token_ids": True}
    status, answer = server.request("/v1/completions", body)
    assert status == 200
    several = isinstance(prompt[0], list) or prompt == ["ab", "cd"]
    assert [choice["prompt_token_ids"] for choice in answer["choices"]] == [[97, 98], [99, 100]][: 1 + several]
    first = answer["choices"][0]
    assert len(first["logprobs"]["token_logprobs"]) == len(first["token_ids"]) <= 4
    assert first["token_ids"] == server.generate([97, 98], temperature=0.0, max_tokens=4)["token_ids"], "greedy"


CHAT = {"messages": [{"role": "user", "content": "x"}]}
REFUSALS = [
    (
        "/inference/v1/generate",
        {"model": "nope", "token_ids": [1], "sampling_params": {}},
        404,
        "`nope` does not exist",
    ),
    ("/inference/v1/generate", {"token_ids": [1] * 512, "sampling_params": {}}, 400, "maximum context length is 512"),
    ("/inference/v1/generate", {"token_ids": [99_999], "sampling_params": {}}, 400, "out of vocabulary"),
    ("/inference/v1/generate", {"token_ids": [1]}, 400, "sampling_params"),
    ("/inference/v1/generate", {"token_ids": [1], "sampling_params": {"top_p": 0.9}}, 400, "top_p"),
    ("/inference/v1/generate", {"token_ids": [1], "sampling_params": {"temperature": -1}}, 400, "temperature"),
    ("/inference/v1/generate", [1], 400, "JSON object"),
    ("/v1/chat/completions", {**CHAT, "stream": True}, 400, "stream"),
    ("/v1/chat/completions", {**CHAT, "max_tokens": 600}, 400, "maximum context length"),
    ("/v1/chat/completions", {**CHAT, "tools": [{"type": "function"}]}, 400, "tools"),
    ("/v1/chat/completions", {"messages": []}, 400, "messages"),
    ("/v1/completions", {"prompt": "a", "stop": ["b"]}, 400, "stop"),
    ("/v1/completions", {"prompt": {}}, 400, "prompt"),
]


def test_what_cannot_be_served_gets_its_status_and_disturbs_nobody(server: Server) -> None:
    params: dict[str, Any] = {"seed": 2, "max_tokens": 150, "ignore_eos": True}
    alone = server.generate([5, 6], **params)["token_ids"]
    with ThreadPoolExecutor(1) as pool:
        neighbour = pool.submit(server.generate, [5, 6], **params)
        for path, body, status, message in REFUSALS:
            got, answer = server.request(path, body)
            assert (got, answer["error"]["code"]) == (status, status), (path, body, answer)
            assert message in answer["error"]["message"]
        assert neighbour.result()["token_ids"] == alone


def test_the_runbooks_line_shows_the_engine(server: Server) -> None:
    require_tool("curl", "grep", "sh")
    line = f'curl -s http://localhost:{server.engine_port}/metrics | grep -E "num_requests|gpu_cache_usage"'
    shown = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True, timeout=DEADLINE).stdout
    for name in ("num_requests_running", "num_requests_waiting", "gpu_cache_usage_perc"):
        assert re.search(rf'^vllm:{name}\{{engine="0",model_name="[^"]+"\}} [\d.]+$', shown, re.MULTILINE), shown


def test_a_client_that_goes_away_frees_its_slot(server: Server) -> None:
    aborted = server.metric("request_success_total")
    assert server.request("/pause?mode=keep", {}, admin=True)[0] == 200
    body = json.dumps({"token_ids": [1], "sampling_params": {"max_tokens": 500, "ignore_eos": True}}).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        head = f"POST /inference/v1/generate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        wait_until(lambda: server.metric("num_requests_waiting") == 1)
    wait_until(lambda: server.metric("num_requests_waiting") == 0)
    assert server.request("/resume", {}, admin=True)[0] == 200
    assert server.metric("request_success_total") == aborted + 1
    assert server.metric("num_requests_running") == 0


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_pausing(server: Server) -> None:
    assert server.request("/is_paused", admin=True) == (200, {"is_paused": False})
    for mode in ("keep", "wait", "abort"):
        assert server.request(f"/pause?mode={mode}", {}, admin=True) == (200, {"status": "paused"})
        assert server.request("/is_paused", admin=True) == (200, {"is_paused": True})
    assert server.request("/pause", {"mode": "never"}, admin=True)[0] == 400
    assert server.request("/resume", {}, admin=True) == (200, {"status": "resumed"})
    assert server.request("/is_paused", admin=True) == (200, {"is_paused": False})


def test_new_weights_arrive_between_two_tokens_and_a_tied_head_moves_along(server: Server) -> None:
    run = server.log.parent
    new = weight_directory(run / "broadcasts" / "step_7", version=7, seed=5, tied=True)
    with ThreadPoolExecutor(1) as pool:
        before = server.metric("generation_tokens_total")
        in_flight = pool.submit(server.generate, [5, 6], seed=2, max_tokens=500, ignore_eos=True)
        wait_until(lambda: server.metric("generation_tokens_total") > before + 5)
        update = {"weight_dir": str(new), "version": 7}
        assert server.request("/update_weights", update, admin=True) == (200, {"version": 7})
        old, newer = in_flight.result()["weight_versions"]
    assert (newer["version"], newer["end"]) == ("7", 500)
    assert (old["start"], old["end"]) == (0, newer["start"])
    choice = server.generate([5, 6], max_tokens=8, temperature=1.3, seed=4)
    assert {span["version"] for span in choice["weight_versions"]} == {"7"}
    check_logprobs(new, [5, 6], choice, 1.3)
    server.wait_for(f"Updated weights to v7 from {new.resolve()}")


def test_weights_that_must_not_be_loaded_change_nothing(server: Server, tmp_path: Path) -> None:
    run = server.log.parent
    good = weight_directory(run / "broadcasts" / "step_8", version=8, seed=6, tied=True)
    torn = Path(shutil.copytree(good, run / "broadcasts" / "step_9"))
    weights = torn / "model.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-1] ^= 1
    weights.write_bytes(raw)
    other = weight_directory(run / "broadcasts" / "step_10", version=10, seed=0, family="llama", tied=True)
    bare = Path(shutil.copytree(good, run / "broadcasts" / "step_11", ignore=shutil.ignore_patterns("manifest.json")))
    outside = Path(shutil.copytree(good, tmp_path / "step_12"))
    write_manifest(outside, 12)
    params: dict[str, Any] = {"seed": 2, "max_tokens": 20, "ignore_eos": True}
    before = server.generate([5, 6], **params)
    for directory, version, reason in [
        (good, 9, "holds version 8, not 9"),
        (torn, 8, "checksum differs"),
        (other, 10, "does not fit the model"),
        (bare, 11, "manifest"),
        (run / "broadcasts" / "step_13", 13, "no such directory"),
        (outside, 12, "only"),
        ("", 8, "weight_dir"),
        (good, "8", "version"),
    ]:
        update = {"weight_dir": str(directory), "version": version}
        status, answer = server.request("/update_weights", update, admin=True)
        assert status == 400
        assert reason in answer["error"]["message"]
    assert server.generate([5, 6], **params) == before
    assert server.request("/health") == (200, "")


def test_console_lines_have_the_contracts_form(server: Server) -> None:
    lines = [line for line in server.log.read_text().splitlines() if not line.startswith("--- ")]
    header = re.compile(r"^\d{2}:\d{2}:\d{2} +(DEBUG|INFO|SUCCESS|WARNING|ERROR) \S.*$")
    assert all(header.match(line) for line in lines)
    text = "\n".join(lines)
    assert "SUCCESS Inference server ready in" in text
    assert "\x1b" not in text
    assert "Traceback" not in text


def test_sigterm_stops_it_at_once_with_requests_in_flight(tmp_path: Path, model: Path) -> None:
    with start(tmp_path, model) as server, ThreadPoolExecutor(1) as pool:
        server.wait_healthy()
        body = {"token_ids": [1], "sampling_params": {"ignore_eos": True}}
        assert server.request("/pause", {}, admin=True)[0] == 200
        answer = pool.submit(server.request, "/inference/v1/generate", body)
        wait_until(lambda: server.metric("num_requests_waiting") == 1)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(DEADLINE) == 0
        assert answer.exception(DEADLINE) is not None
        assert "Stopping on SIGTERM" in server.log.read_text()


def test_a_crash_of_the_engine_ends_the_process(tmp_path: Path, model: Path) -> None:
    code = (
        "import prl.inference.model as m\ndef broken(*_):\n    raise RuntimeError('made up')\nm.Model.decode = broken"
    )
    with start(tmp_path, model, code=code) as server:
        server.wait_healthy()
        body = {"token_ids": [1], "sampling_params": {"max_tokens": 5}}
        status, answer = server.request("/inference/v1/generate", body)
        assert status == 500
        assert "made up" in answer["error"]["message"]
        assert server.process.wait(DEADLINE) == 1
        log = server.log.read_text()
        assert "ERROR Fatal error in run_server" in log
        assert "RuntimeError: made up" in log


def test_a_port_in_use_is_told_with_the_key_to_change(tmp_path: Path, model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        taken = holder.getsockname()[1]
        with start(tmp_path, model, "--backend_port", str(taken)) as server:
            assert server.process.wait(DEADLINE) == 1
            log = server.log.read_text()
        assert f"ERROR 127.0.0.1:{taken}: address already in use. Change backend_port" in log
        assert "Traceback" not in log
        with pytest.raises(PortError, match=r"Change server\.port"):
            take_port("127.0.0.1", taken, "server.port")


def test_a_port_that_another_server_took_meanwhile_is_told_too() -> None:
    first = take_port("127.0.0.1", 0, "server.port")
    port = first.socket.getsockname()[1]
    second = take_port("127.0.0.1", port, "server.port")
    try:
        first.listen(1)
        with pytest.raises(PortError, match="address already in use"):
            second.listen(1)
    finally:
        first.socket.close()
        second.socket.close()


def test_models_that_cannot_be_served_are_refused_with_the_reason(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=10**9))
    mute = shutil.copytree(model, tmp_path / "mute", ignore=shutil.ignore_patterns("tokenizer.json"))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"model": {"name": str(mute)}}, r"tokenizer\.json: no such file"),
        ({"model": {"name": "no/such-model"}}, "no model of that name in the local Hugging Face cache"),
        ({"engine": {"max_model_len": 9999}}, "max_model_len = 9999: the model reaches 512"),
        ({"engine": {"max_num_seqs": 4096, "max_model_len": 512}}, "more than this machine has"),
    ]
    for changes, reason in cases:
        config = InferenceConfig.model_validate({"model": {"name": str(model)}, **changes})
        with pytest.raises((UnsupportedModelError, TokenizerError), match=reason):
            load_model(config)


def test_a_refused_model_ends_the_process_with_the_reason_alone(tmp_path: Path, model: Path) -> None:
    moe = Path(shutil.copytree(model, tmp_path / "moe"))
    config = json.loads((moe / "config.json").read_text())
    (moe / "config.json").write_text(json.dumps({**config, "architectures": ["Qwen3MoeForCausalLM"]}))
    with start(tmp_path, moe) as server:
        assert server.process.wait(DEADLINE) == 1
        log = server.log.read_text()
    assert re.search(r"^[\d:]+ +ERROR .*Qwen3MoeForCausalLM", log, re.MULTILINE)
    assert "Traceback" not in log


def test_an_unknown_key_is_a_usage_error(tmp_path: Path, model: Path) -> None:
    with start(tmp_path, model, "--engine.max_seqs", "4") as server:
        assert server.process.wait(DEADLINE) == 64
        assert "--engine.max_seqs" in server.log.read_text()
