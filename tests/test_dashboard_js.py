"""The pure functions of the browser code, under Node's own test runner, and that the type checker accepts all of it."""

import re
import subprocess
from pathlib import Path

from conftest import require_tool

ROOT = Path(__file__).parent.parent


def test_pure_functions() -> None:
    require_tool("node")
    # Named one by one: what a directory means to --test differs between Node's versions.
    files = sorted(map(str, (ROOT / "tests/js").glob("*.test.js")))
    assert files
    done = subprocess.run(
        ["node", "--test", *files], check=False, cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "# pass 0" not in done.stdout


def test_no_markup_is_made_of_data() -> None:
    """Text nodes only: nothing in the browser code may turn a string into elements, styles or code."""
    forbidden = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "dangerouslySetInnerHTML", "eval(")
    for path in (ROOT / "src/prl/dashboard/static/js").rglob("*.js"):
        text = path.read_text()
        for name in forbidden:
            assert name not in text, f"{path} uses {name}"


def test_the_dark_theme_is_one_whoever_chose_it() -> None:
    """tokens.css holds its colours twice: chosen on the page, and by the system where nobody chose."""
    text = (ROOT / "src/prl/dashboard/static/css/tokens.css").read_text()
    chosen = re.search(r':root\[data-theme="dark"\] \{(.*?)\}', text, re.S)
    system = re.search(r"prefers-color-scheme: dark\) \{ :root:not\(\[data-theme\]\) \{(.*?)\}", text, re.S)
    assert chosen and system and chosen[1].split() == system[1].split()


def test_modules_fit_a_reader() -> None:
    for path in (ROOT / "src/prl/dashboard/static/js").rglob("*.js"):
        assert len(path.read_text().splitlines()) < 400, path
