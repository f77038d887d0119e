"""Engines asked at the run's own addresses, in whatever state they are."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from prl.watch import engines, gather
from prl.watch.engines import Address, addresses, recorded, scrape
from prl.watch.lines import EngineLine
from prl.watch.series import Recorded
from sample_runs import SampleRun

PAGE = """# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 12.0
vllm:num_requests_waiting{engine="0",model_name="m"} 3.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
vllm:num_preemptions_total{engine="0",model_name="m"} 2.0
vllm:generation_tokens_total{engine="0",model_name="m"} 4096.0
python_gc_objects_collected_total 1.0
"""


@contextmanager
def serving(page: str, status: int = 200, seconds: float = 0.0, location: str | None = None) -> Iterator[Address]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if seconds:  # nobody listens any more when it would answer
                time.sleep(seconds)
                return
            self.send_response(status)
            if location is not None:
                self.send_header("Location", location)
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    try:
        yield Address("127.0.0.1", server.server_address[1])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_engine_that_answers() -> None:
    with serving(PAGE) as address:
        (engine,) = scrape([address], 7.0)
    assert (engine.state, engine.as_of, engine.source) == ("alive", 7.0, str(address))
    assert (engine.running, engine.waiting, engine.kv_usage) == (12.0, 3.0, 0.5)
    assert (engine.preemptions, engine.generated, engine.problem) == (2.0, 4096.0, None)


def test_older_names_several_engines_not_a_number_and_a_page_that_is_cut() -> None:
    page = (
        'vllm:gpu_cache_usage_perc{engine="0"} NaN\nvllm:num_requests_running{engine="0"} 1\n'
        'vllm:gpu_cache_usage_perc{engine="1"} 0.25\nvllm:num_requests_running{engine="1"} 1'
    )
    with serving(page) as address:
        first, second = scrape([address], 7.0)
    assert (first.kv_usage, first.running) == (None, 1.0)
    assert (second.kv_usage, second.running) == (0.25, None)  # its last line has no end, so it is not trusted
    assert first.name.endswith("engine 0")


def test_a_router_on_the_other_port_is_no_engine(free_port: int) -> None:
    with serving("router_requests_total 4\n") as router, serving(PAGE) as address:
        (engine,) = scrape([Address("127.0.0.1", free_port), address, router], 7.0)
    assert engine.source == str(address)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"page": "moved", "status": 302, "location": "http://127.0.0.1:1/metrics"}, "HTTP 302"),
        ({"page": "", "status": 503}, "HTTP 503"),
        ({"page": PAGE, "seconds": 1.0}, "timed out"),
    ],
)
def test_other_answers_are_told(answer: dict[str, Any], problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "SECONDS", 0.2)
    with serving(**answer) as address:
        (engine,) = scrape([address], 7.0)
    assert (engine.state, engine.problem) == ("unknown", problem)


def test_nobody_there(free_port: int) -> None:
    (engine,) = scrape([Address("127.0.0.1", free_port)], 7.0)
    assert (engine.state, engine.problem) == ("gone", "Connection refused")
    assert scrape([], 7.0) == []


@pytest.mark.parametrize(
    ("documents", "ports", "job", "wanted"),
    [
        ({"inference": {"server": {"host": "127.0.0.1", "port": 8000}}}, {"engine": 8101}, {}, ["127.0.0.1:8101"]),
        (
            {"orchestrator": {"model": {"client": {"base_url": ["http://localhost:8000/v1", "http://n7:9000/v1"]}}}},
            {},
            {},
            ["localhost:8100", "n7:9100", "localhost:8000", "n7:9000"],
        ),
        ({"orchestrator": {"client": {"base_url": "http://n7:8000/v1"}}}, {}, {}, ["n7:8100", "n7:8000"]),
        (
            {"orchestrator": {"client": {"base_url": "http://n7:8000", "admin_base_url": ["http://n7:8100"]}}},
            {},
            {},
            ["n7:8100"],
        ),
        ({"inference": {"server": {"host": "0.0.0.0", "port": 8000}}}, {}, {}, ["127.0.0.1:8100", "127.0.0.1:8000"]),
        ({"rl": {"orchestrator": {"client": {"base_url": "http://a:1"}}}}, {}, {}, ["a:101", "a:1"]),
        ({}, {}, {"ADMIN_URLS": "(http://n1:8100 http://n2:8100)"}, ["n1:8100", "n2:8100"]),
        ({"orchestrator": {"client": {"base_url": ["https://api.example/v1", "x", 3, "http://h:99999"]}}}, {}, {}, []),
        ({"inference": [], "orchestrator": 3}, {"engine": "8000"}, {"ADMIN_URLS": "none"}, []),
    ],
)
def test_addresses(documents: Any, ports: Any, job: dict[str, str], wanted: list[str]) -> None:
    assert [f"{one.host}:{one.port}" for one in addresses(documents, ports, job)] == wanted


def test_a_loopback_address_is_asked_only_where_the_run_lives(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    run.write_resolved(inference={"server": {"host": "127.0.0.1", "port": 1}})
    with serving(PAGE) as address:
        run.write_status(ports={"engine": address.port})
        assert [(engine.state, engine.running) for engine in gather(run.root).engines] == [("alive", 12.0)]
        assert gather(run.root, ask_engines=False).engines == []
        for process in run.status.processes:
            process.host = "node-7"
        run.write_status(host="node-7")
        assert gather(run.root).engines == []  # the same port of this host is somebody else's
        run.write_status(phase="finished")
        assert gather(run.root).engines == []


def test_what_was_recorded_stands_in_with_its_age() -> None:
    rows = {"server0.0": Recorded(5.0, {"gpu_cache_usage_perc": 0.9, "generation_tokens_total:rate": 800.0})}
    said = {"inference 0": EngineLine(4.0, "logs/inference.log", {"run": 64, "wait": 3, "kv": 47.0, "gt": 310.5})}
    (engine,) = recorded(rows, said, "metrics.jsonl")
    assert (engine.state, engine.as_of, engine.kv_usage, engine.generation_rate) == ("unknown", 5.0, 0.9, 800.0)
    (engine,) = recorded({}, said, "metrics.jsonl")  # the oldest writers recorded no rows of engines
    assert (engine.running, engine.waiting, engine.kv_usage, engine.generation_rate) == (64.0, 3.0, 0.47, 310.5)
