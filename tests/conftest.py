"""Fixtures shared by the suite."""

import os
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from mini_slurm import MiniSlurm

# A suite that was started in the background has SIGINT ignored, and the processes of its tests would never see Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# In CI property tests draw the same examples every time: a change is judged by its own faults. Elsewhere they search.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("dev", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def require_tool(*names: str) -> None:
    """Skip the calling test where a program is missing; in CI (``CI=true``) a missing program is a failure."""
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        message = f"not installed: {', '.join(missing)}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)


@pytest.fixture(scope="session", autouse=True)
def own_directories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What commands remember, caches and find of models is no business of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRL_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        patch.setenv("PRL_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("hub")))
        patch.delenv("PRL_RULES", raising=False)
        yield


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator["MiniSlurm"]:
    """A SLURM of three nodes for the tests of a module, which the programs that they call find."""
    from mini_slurm import PROGRAMS, mini_slurm

    require_tool(*PROGRAMS)
    if os.geteuid() != 0:
        pytest.skip("slurmd starts jobs as root only")
    with pytest.MonkeyPatch.context() as patch, mini_slurm(tmp_path_factory.mktemp("slurm")) as running:
        patch.setenv("SLURM_CONF", str(running.conf))
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """A Chromium for the tests of a module."""
    from browser import chromium

    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def base(runs: Path) -> Iterator[str]:
    """The address of a dashboard over a module's ``runs``."""
    from browser import serving

    with serving(runs) as address:
        yield address


@pytest.fixture
def free_port() -> int:
    """A TCP port on loopback that nobody holds right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
