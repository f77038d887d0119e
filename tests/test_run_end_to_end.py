"""One real run from its first process to its result, and what anybody can read from its directory afterwards.

Two ranks, two environments (one of several turns), a checkpoint on the way.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import require_tool
from prl.rundir.annotations.reader import fold_episode
from prl.rundir.annotations.reader import read_index as read_annotations
from prl.rundir.checkpoints import complete_steps
from prl.rundir.episodes.branches import branch_paths
from prl.rundir.episodes.reader import iter_episodes, read_episode, read_index, read_values
from prl.rundir.metrics.reader import MetricsHistory, read_metrics
from prl.trainer.tiny import make_tiny_model
from real_run import Run, configuration, running

ROOT = Path(__file__).parent.parent
STEPS = 4
SOURCES = [
    {"env": {"taskset": {"id": "reverse-text"}}, "timeout": 30, "serve": {"interval": 0.5}},
    {"env": {"taskset": {"id": "guess-number"}}, "timeout": 30, "serve": {"interval": 0.5}},
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model") / "tiny", hidden_size=32, num_layers=1)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Iterator[Run]:
    config = configuration(
        tmp_path_factory.mktemp("run"),
        model,
        max_steps=STEPS,
        deployment={"num_train_gpus": 2},
        monitors={"file": {"chunk_bytes": 100_000}},
        inference={"engine": {"max_model_len": 256}},
        orchestrator={"train": {"source": SOURCES}, "metrics_interval": 0.5},
    )
    with running(config) as started:
        assert started.end() == 0, started.text[-4000:]
        yield started


@pytest.fixture(scope="module")
def metrics(run: Run) -> MetricsHistory:
    return read_metrics(run.layout.metrics)


def shell(command: str, run: Run) -> str:
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command.replace("{run_dir}", str(run.layout.root))],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_every_step_of_both_producers_is_there(metrics: MetricsHistory) -> None:
    steps = list(range(1, STEPS + 1))
    for producer, key in {
        "orch": "train/agg/effective/agent/reward/mean",
        "trainer": "optim/grad_norm",
    }.items():
        assert [point.step for point in metrics.series(producer, key)] == steps


def test_the_runbooks_metrics_have_values(metrics: MetricsHistory) -> None:
    """The keys that the runbook's tables name; guess-number's seat is called like any single seat."""
    expected = {
        "orch": [
            "train/agg/effective/num_total_tokens/mean",
            "train/agg/effective/num_turns/mean",
            "train/agg/effective/agent/is_truncated/mean",
            "train/agg/all/agent/has_error/mean",
            "train/agg/all/agent/is_trainable/mean",
            "train/agg/all/agent/is_admitted/mean",
            "train/reverse-text/effective/agent/reward/mean",
            "train/reverse-text/effective/agent/metrics/exact/mean",
            "train/reverse-text/effective/agent/timing/agent/model/mean",
            "train/guess-number/all/agent/num_turns/mean",
            "time/step",
            "time/save_ckpt",
            "time/wait_for_policy",
            "dispatcher/off_policy/mean",
            "dispatcher/inflight/train",
            "off_policy/mean",
            "off_policy/in_flight/max",
            "off_policy/in_queue/max",
            "off_policy/dropped",
            "env_server/reverse-text/event_loop_lag/p99",
            "env_server/guess-number/active",
            "inference/agg/num_requests_running/mean",
            "inference/server0.0/kv_cache_usage_perc",
            "event_loop_lag/max",
        ],
        "trainer": [
            "mismatch_kl/all/mean",
            "mismatch_kl/reverse-text/std",
            "entropy/all/max",
            "is_masked/mean",
            "optim/grad_norm",
            "time/step",
            "time/wait_for_batch",
            "time/forward_backward",
            "time/broadcast_weights",
            "time/save_ckpt",
            "perf/throughput",
            "perf/mfu",
        ],
    }
    missing = [(p, key) for p, keys in expected.items() for key in keys if not metrics.series(p, key)]
    assert missing == []


def test_the_engine_and_the_trainer_agree_on_the_first_batch(metrics: MetricsHistory) -> None:
    """Step 1 is trained on the weights that sampled it, so its mismatch KL is rounding and nothing is masked."""
    (first, *_) = metrics.series("trainer", "mismatch_kl/all/max")
    assert first.step == 1
    assert first.value < 1e-6
    assert metrics.series("trainer", "is_masked/mean")[0].value == 0.0


def test_the_index_leads_to_every_episode(run: Run) -> None:
    traces = run.layout.traces
    rows = read_index(traces)
    episodes = list(iter_episodes(traces))
    assert [row["id"] for row in rows] == [episode.record["id"] for episode in episodes]
    assert {row["env"] for row in rows} == {"reverse-text", "guess-number"}
    for row in (rows[0], rows[-1]):
        assert read_episode(traces, row["chunk"], row["offset"])["id"] == row["id"]
    assert [row["id"] for row in read_values(traces)] == [row["id"] for row in rows]
    assert sorted(path.suffix for path in (traces / "stream").iterdir()) == [".zst"] * len({r["chunk"] for r in rows})
    assert len({row["chunk"] for row in rows}) > 1
    assert not list((traces / "live").rglob("*.json*"))


def test_a_shipped_episode_explains_each_of_its_tokens(run: Run) -> None:
    """Advantage, trainer log-probability and entropy for every sampled token of every branch, and its staleness."""
    traces = run.layout.traces
    shipped = 0
    for episode in iter_episodes(traces):
        record = fold_episode(traces, episode.record)
        for trace in record["traces"]:
            if not trace["info"].get("effective"):
                continue
            shipped += 1
            assert 0 <= trace["info"]["ship"]["step"] - trace["info"]["dispatch"]["step"] <= 8
            trained = trace["info"]["advantage"] != 0
            for path in branch_paths(trace["nodes"]):
                for node in (trace["nodes"][i] for i in path if trace["nodes"][i]["sampled"]):
                    sampled = sum(node["mask"])
                    assert len(node["logprobs"]) == sampled
                    assert node["advantages"] == pytest.approx([trace["info"]["advantage"]] * sampled, abs=1e-4)
                    if trained:
                        assert len(node["trainer_logprobs"]) == len(node["entropies"]) == sampled
    # Without constant_trainer_batch_size what carries no signal is left out of the 16 traces of a step.
    assert 0 < shipped <= STEPS * 16
    assert shipped == len(read_annotations(traces, "orch"))


def test_the_runbooks_recipes_work(run: Run) -> None:
    require_tool("zstd", "jq")
    lines = int(shell("wc -l < {run_dir}/monitors/file/traces/stream.index.jsonl", run))
    rewards = shell("zstd -dcf {run_dir}/monitors/file/traces/stream/* | jq -c '.traces[].rewards'", run)
    assert len(rewards.splitlines()) == lines
    shell(
        "zstd -dcf {run_dir}/monitors/file/traces/stream/* | jq 'select(.ok | not) | {id, env: .env.id, errors}'", run
    )
    infos = shell("jq -c '{trace_id, info}' {run_dir}/monitors/file/traces/annotations/orch.index.jsonl", run)
    assert infos
    assert shell("cat {run_dir}/configs/latest/command.txt", run).startswith("rl @ ")
    resolved = json.loads(shell("jq . {run_dir}/configs/latest/resolved/orchestrator.json", run))
    assert resolved["max_steps"] == STEPS
    for log in ("trainer", "orchestrator", "inference", "envs/train/reverse-text"):
        assert shell(f"cat {{run_dir}}/logs/latest/{log}.log", run)
        assert "\x1b" not in shell(f"cat {{run_dir}}/logs/latest/{log}.log", run)


def test_the_result_loads_and_checkpoints_are_whole(run: Run) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    result = run.layout.weights / f"step_{STEPS}"
    assert AutoModelForCausalLM.from_pretrained(result).config.hidden_size == 32
    assert AutoTokenizer.from_pretrained(result)("ab")["input_ids"]
    assert complete_steps(run.layout.checkpoints) == [2, 4]
    assert not list(run.layout.checkpoints.glob("*.tmp"))


def test_the_run_explains_itself(run: Run) -> None:
    configs = run.layout.configs
    links = {(directory / "latest").readlink() for directory in (configs, run.layout.logs)}
    assert links == {Path("attempt_1")}
    surroundings = json.loads((configs / "latest/environment.json").read_text())
    assert {"packages", "host", "cwd", "python", "seeds"} <= set(surroundings)
    assert (run.layout.tokenizer / "tokenizer.json").exists()
    names = sorted(path.name for path in (configs / "latest/resolved").glob("*.json"))
    assert names == ["inference.json", "orchestrator.json", "rl.json", "trainer.json"]


def test_the_verdict_of_a_finished_run_is_healthy_and_goes_into_status_md(run: Run) -> None:
    command = [sys.executable, "-m", "prl.cli.main"]
    done = subprocess.run([*command, "status", str(run.layout.root), "--json"], capture_output=True, check=False)
    answer = json.loads(done.stdout)
    assert done.returncode == 0
    assert (answer["phase"], answer["health"], answer["step"], answer["findings"]) == ("finished", "Healthy", STEPS, [])
    subprocess.run([*command, "check-in", str(run.layout.root)], check=True, capture_output=True)
    text = run.layout.status_md.read_text()
    assert f"**Step**: {STEPS} / {STEPS}\n**Health**: Healthy\n" in text
    for part in ("**Progress**", "**Stability**", "**Performance**"):
        assert part in text


def test_the_readmes_own_environment_trains_and_leaves_nothing_without_the_file_monitor(
    tmp_path: Path, model: Path
) -> None:
    """The README's line for ``examples/my_env.py``, and ``--no-monitors.file`` in the same run."""
    readme = (ROOT / "README.md").read_text()
    (source,) = re.findall(r"--orchestrator\.train\.source '(\[.*my-env.*\])'", readme)
    config = configuration(tmp_path, model, max_steps=1, ckpt=None)
    with running(config, "--no-monitors.file", "--orchestrator.train.source", source, cwd=ROOT) as run:
        assert run.end() == 0, run.text[-4000:]
    assert (run.layout.attempt_logs(1) / "envs/train/my-env.log").exists()
    assert not (run.layout.root / "monitors").exists()
