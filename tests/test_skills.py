"""Skills say what is true: every command that they name runs, every path, key, option, phase and link exists.

Commands run on sample runs, with what stands in capitals replaced. What would start a run is run dry; of SLURM's
commands it is seen that they may be asked, and of ``make`` that it knows the target.
"""

import functools
import http.server
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from browser import serving
from launch_stand_ins import make_model
from prl.cli.dashboard import dashboard as dashboard_command
from prl.cli.main import prl
from prl.rundir.episodes.reader import read_index
from prl.rundir.recognition import run_id
from prl.slurm.commands import allowed
from prl.synth import RunShape, write_run
from prl.watch import verdict

ROOT = Path(__file__).parent.parent
SKILLS = {path.parent.name: path for path in sorted(ROOT.glob("skills/*/SKILL.md"))}
READERS = frozenset({"cat", "tail", "curl", "df"})
"""Programs of others that a skill may name: they only read."""
LAUNCHERS = {"rl": "prl.cli.rl", "sft": "prl.cli.sft"}
SLURM = frozenset({"squeue", "sacct", "sinfo", "scontrol", "sstat"})
PHASES = {
    verdict.CONFIGURED, verdict.QUEUED, verdict.STARTING, verdict.RUNNING, verdict.EVALUATING, verdict.DRAINING,
    verdict.FINISHED, verdict.FAILING, verdict.FAILED, verdict.STOPPED, verdict.PREEMPTED, verdict.REQUEUED,
    verdict.PHASE_UNKNOWN,
}  # fmt: skip
ENGINE_PAGE = b'vllm:num_requests_running{engine="0"} 3.0\nvllm:kv_cache_usage_perc{engine="0"} 0.5\n'


def blocks(text: str, language: str) -> list[str]:
    """The code of a language in a page, without the indentation of a list."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", text, flags=re.M | re.S)
    return ["\n".join(line.removeprefix(indent) for line in code.splitlines()) for indent, code in found]


def spans(text: str) -> list[str]:
    """What stands in the text as code, outside of blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S))


def commands(name: str) -> list[str]:
    """Every command line of a skill, each once."""
    text = SKILLS[name].read_text()
    lines = [line for block in blocks(text, "sh") for line in block.splitlines() if line.strip()]
    named = [span for span in spans(text) if span.split()[0] in {"prl", "df", "dashboard", *LAUNCHERS} and " " in span]
    return list(dict.fromkeys(line.strip() for line in [*lines, *named]))


ALL_COMMANDS = [(name, line) for name in SKILLS for line in commands(name)]


class EnginePage(http.server.BaseHTTPRequestHandler):
    """The metrics page of an engine."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(ENGINE_PAGE)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@dataclass(frozen=True)
class Place:
    """A directory like that of somebody who follows a skill."""

    home: Path
    run: Path
    episode: str
    model: Path
    engine: str
    dashboard: str

    @property
    def environment(self) -> dict[str, str]:
        home = str(self.home)
        own = {"HOME": home, "PRL_CACHE_DIR": f"{home}/cache", "PRL_STATE_DIR": f"{home}/state"}
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PRL_")}
        return {**kept, **own, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def fill(self, text: str) -> str:
        """Put something in the place of each word in capitals that a skill explains."""
        known = {
            "RUN_ID": run_id(str(self.run.resolve())),
            "RUN": str(self.run),
            "EPISODE": self.episode,
            "MODEL": str(self.model),
            "NAME": self.run.name if text.startswith("prl ") else "fresh",
            "JOB": "4711",
        }
        text = re.sub(rf"\b({'|'.join(known)})\b", lambda match: known[match[1]], text)
        return text.replace("http://localhost:8100", self.engine).replace("http://localhost:7788", self.dashboard)


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), EnginePage) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("skills")


@pytest.fixture(scope="module")
def dashboard(home: Path) -> Iterator[str]:
    (home / "outputs").mkdir()
    with serving(home / "outputs") as address:
        yield address


@pytest.fixture(scope="module")
def place(home: Path, engine: str, dashboard: str) -> Place:
    (home / "examples").symlink_to(ROOT / "examples")
    outputs = home / "outputs"
    write_run(home / "stopped" / "fresh", RunShape(steps=24, max_steps=100, state="stopped", rollouts=8, ranks=1))
    run = write_run(outputs / "demo", RunShape(steps=12, rollouts=8, ranks=2))
    episode = read_index(run / "monitors/file/traces")[0]["id"]
    place = Place(home, run, episode, make_model(home / "model"), engine, dashboard)
    words = ("@", "examples/reverse_text/rl.toml", "--model.name", str(place.model), "--run.name", "fresh", "--dry-run")
    done = in_shell([sys.executable, "-m", LAUNCHERS["rl"], *words], place)
    assert done.returncode == 0, done.stdout + done.stderr
    return place


@pytest.fixture(scope="module")
def samples(place: Place, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Runs of which each has something that the others have not."""
    far = RunShape(steps=2, rollouts=8, writer="prime-rl", state="running", inference_nodes=2)
    return [place.run, place.home / "outputs/fresh", write_run(tmp_path_factory.mktemp("far") / "nodes", far)]


def in_shell(words: str | list[str], place: Place, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words if isinstance(words, list) else ["bash", "-o", "pipefail", "-c", words],
        cwd=place.home,
        env=place.environment | more,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def run_prl(words: list[str], place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in place.environment.items():
        if key.startswith("PRL_"):
            monkeypatch.setenv(key, value)
    monkeypatch.delenv("PRL_OUTPUT_DIR", raising=False)
    monkeypatch.chdir(place.home)
    done = CliRunner().invoke(prl, words, standalone_mode=False)
    assert done.exception is None, (done.output, done.exception)
    statuses = (0, 1, 2, 3) if words[0] == "restart-plan" or "--since-restart" in words else (None, 0)
    assert done.return_value in statuses, done.output


def serve(words: list[str], place: Place) -> None:
    """A ``dashboard`` command: one that asks ends by itself, one that serves says its address and is ended."""
    command = [sys.executable, "-m", "prl.cli.dashboard", *words]
    if {"--status", "--stop"} & set(words):
        assert in_shell(command, place).returncode in (0, 3)
        return
    with subprocess.Popen(
        [*command, "--port", "0"], cwd=place.home, env=place.environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert any(line.startswith("Dashboard: http://localhost:") for line in process.stdout)
        finally:
            process.terminate()


@pytest.mark.parametrize(("skill", "line"), ALL_COMMANDS, ids=[f"{skill}: {line}" for skill, line in ALL_COMMANDS])
def test_a_named_command_runs(skill: str, line: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    filled = place.fill(line)
    words = shlex.split(filled, comments=True)
    match words[0]:
        case "prl":
            run_prl(words[1:], place, monkeypatch)
        case "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), flags=re.M)
        case program if program in SLURM:
            assert allowed(tuple(words)), "not among the queries that only read"
        case program if program in LAUNCHERS:
            dry = [] if {"--dry-run", "--help"} & set(words) else ["--dry-run"]
            outputs = "stopped" if "--resume" in line else "outputs"
            program = LAUNCHERS[program]
            done = in_shell([sys.executable, "-m", program, *words[1:], *dry], place, PRL_OUTPUT_DIR=outputs)
            assert done.returncode == 0, done.stdout + done.stderr
        case "dashboard":
            serve(words[1:], place)
        case "python":
            done = in_shell([sys.executable, *words[1:]], place)
            assert done.returncode == 0, done.stderr
        case program:
            assert program in READERS, f"{program}: neither of this project nor known to only read"
            done = in_shell(filled, place)
            assert done.returncode == 0, done.stderr
            assert done.stdout


@pytest.mark.parametrize("skill", SKILLS)
def test_front_matter_is_as_agents_expect_it(skill: str) -> None:
    _, front, body = SKILLS[skill].read_text().split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in front.splitlines())
    assert set(fields) == {"name", "description"}
    assert fields["name"] == skill
    assert re.fullmatch(r"[a-z0-9-]{1,64}", skill)
    assert 0 < len(fields["description"]) <= 1024
    assert body.lstrip().startswith("# ")


@pytest.mark.parametrize("skill", SKILLS)
def test_every_path_that_is_named_exists_in_such_a_run(skill: str, samples: list[Path]) -> None:
    named = [span for span in spans(SKILLS[skill].read_text()) if span.startswith("RUN/")]
    assert skill == "start-run" or named
    absent = [name for name in named if not any(list(run.glob(name.removeprefix("RUN/"))) for run in samples)]
    assert absent == []


@pytest.mark.parametrize("skill", SKILLS)
def test_options_and_keys_that_are_named_exist(skill: str) -> None:
    table = (ROOT / "docs/configuration.md").read_text()
    keys = set(re.findall(r"^\| `([a-z_.]+)`", table, flags=re.M))
    switches = re.findall(r"^\| `([a-z_.]+)` \| bool ", table, flags=re.M)
    known = {"--help", "--dry-run", *(f"--{key}" for key in keys), *(f"--no-{key}" for key in switches), *options()}
    text = SKILLS[skill].read_text()
    assert {span for span in spans(text) if span.startswith("--")} <= known
    dotted = {
        span for span in spans(text) if re.fullmatch(r"(?:orchestrator|trainer|ckpt|inference)(?:\.[a-z_]+)+", span)
    }
    assert dotted <= keys


@pytest.mark.parametrize("skill", SKILLS)
def test_links_lead_somewhere(skill: str) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", SKILLS[skill].read_text()):
        name, _, anchor = target.partition("#")
        page = (SKILLS[skill].parent / name).resolve()
        assert page.exists(), target
        assert not anchor or anchor in anchors(page), target


@pytest.mark.parametrize("skill", SKILLS)
def test_examples_in_python_run(skill: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRL_CACHE_DIR", place.environment["PRL_CACHE_DIR"])
    for example in blocks(SKILLS[skill].read_text(), "python"):
        exec(compile(place.fill(example), str(SKILLS[skill]), "exec"), {})


def test_every_phase_is_explained_and_no_other() -> None:
    text = SKILLS["monitor-run"].read_text()
    table = text[text.index("| phase |") :].split("\n\n")[0]
    first_cells = [row.split("|")[1] for row in table.splitlines()[2:]]
    assert set(re.findall(r"`([a-z]+)`", " ".join(first_cells))) == PHASES


def options() -> set[str]:
    """Every option of every subcommand of ``prl``, and of ``dashboard``."""
    context = click.Context(prl)
    found = [dashboard_command, *(prl.get_command(context, name) for name in prl.list_commands(context))]
    return {option for command in found if command for parameter in command.params for option in parameter.opts}


@functools.cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as hosts of repositories make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.M)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
