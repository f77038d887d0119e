"""What console logs say, in the contract's words."""

from pathlib import Path

from prl.rundir.locate import locate
from prl.watch.lines import WINDOW, read_lines
from sample_runs import T0, SampleRun


def test_marks_keep_the_newest_line_of_each_kind(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    path = run.log(
        "orchestrator",
        (T0, "INFO", "Holding batch 3 until inference applies policy v1 (currently v0)"),
        (T0 + 9, "INFO", "Holding batch 4 until inference applies policy v2 (currently v1)"),
        (T0 + 10, "SUCCESS", "Orchestrator finished"),
    )
    run.log("trainer", (T0, "INFO", "Orchestrator finished"))  # not its line to say
    marks = {mark.kind: mark for mark in read_lines(locate(run.root)).marks}
    assert set(marks) == {"hold", "orchestrator_done"}
    hold = marks["hold"]
    assert (hold.time, hold.file) == (T0 + 9, "logs/attempt_1/orchestrator.log")
    assert path.read_bytes()[hold.offset :].startswith(b"10:00:09    INFO Holding batch 4")


def test_step_lines_and_dropped_values(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    run.log(
        "trainer",
        (T0, "SUCCESS", "Step 1 |    2.0s | Loss 0.1 | Entropy nan | Grad. Norm 0.2 | LR 1e-6"),
        (T0 + 2, "WARNING", "Dropping 2 non-finite value(s) from metrics.jsonl: loss/mean, loss/max"),
        (T0 + 2, "SUCCESS", "Step 2 |    2.0s | Loss -inf | Entropy 1.0 | Grad. Norm nan | LR 1e-6"),
    )
    lines = read_lines(locate(run.root))
    assert lines.steps == {"trainer": [(1, T0), (2, T0 + 2)]}
    assert [(found.key, found.step) for found in lines.nonfinite] == [
        ("loss/mean", None),
        ("loss/max", None),
        ("loss/mean", 2),
        ("optim/grad_norm", 2),
    ]
    assert (lines.logs[0].warnings, lines.logs[0].errors) == (1, 0)


def test_equal_errors_are_folded_and_many_are_bounded(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    run.log("inference", *((T0 + n, "ERROR", "request failed: timeout") for n in range(15)))
    run.log("orchestrator", *((T0 + n, "ERROR", f"error {n}") for n in range(50)))
    lines = read_lines(locate(run.root))
    folded = next(error for error in lines.errors if error.component == "inference")
    assert (folded.count, folded.time, folded.last_time) == (15, T0, T0 + 14)
    kept = [error.summary for error in lines.errors if error.component == "orchestrator"]
    assert kept == ["error 0", "error 1"] + [f"error {n}" for n in range(44, 50)]
    assert [log.errors for log in lines.logs] == [15, 50]


def test_what_engines_and_the_pipeline_say_of_themselves(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    run.log(
        "inference",
        "(APIServer pid=11) INFO 11-29 10:00:05 [loggers.py:1] Engine 000: Avg prompt throughput: 812.5 tokens/s, "
        "Avg generation throughput: 3010.2 tokens/s, Running: 64 reqs, Waiting: 3 reqs, GPU KV cache usage: 47.3%",
    )
    run.log(
        "orchestrator",
        (T0, "INFO", "Train batch 1/128 (0.8%); 9 inflight episodes (train=9, eval=0)"),
        (T0 + 10, "INFO", "Train batch 96/128 (75.0%); 0 inflight episodes (train=0, eval=0)"),
    )
    lines = read_lines(locate(run.root))
    (engine,) = lines.engines.values()
    assert (engine.values["run"], engine.values["wait"], engine.values["kv"]) == (64, 3, 47.3)
    assert lines.pipeline is not None
    assert (lines.pipeline.time, lines.pipeline.queued, lines.pipeline.inflight_train) == (T0 + 10, 96, 0)


def test_a_job_s_log_speaks_for_the_launcher(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    log = run.layout.launcher / "logs/job_42.log"
    log.parent.mkdir()
    log.write_text("10:00:01   ERROR Terminating all processes\n")
    (mark,) = read_lines(locate(run.root)).marks
    assert (mark.kind, mark.file) == ("teardown", "launcher/logs/job_42.log")


def test_a_log_with_errors_is_read_further_back(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    path = run.log(
        "trainer", (T0, "ERROR", "Fatal error in train"), "Traceback (most recent call last):", "ValueError: x"
    )
    filler = "".join(f"10:00:01    INFO all is well {number}\n" for number in range(WINDOW // 20))
    path.write_text("10:00:00    INFO begin\n" * 2000 + path.read_text() + filler)
    assert read_lines(locate(run.root)).errors == []
    run.log("trainer", (T0 + 2, "ERROR", "and then this"))
    assert [error.summary for error in read_lines(locate(run.root)).errors] == ["ValueError: x", "and then this"]
