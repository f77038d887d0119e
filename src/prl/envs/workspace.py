"""The directory of a local rollout, made when something first asks for it.

verifiers' ``subprocess`` runtime makes a directory for each rollout and removes it afterwards, in a thread. Most
rollouts of the chat harness never look at it.
"""

from pathlib import Path
from typing import Any

from verifiers.v1.runtimes.subprocess import CACHE_DIR, SubprocessRuntime

_UNMADE = "_workdir_unmade"
"""In a runtime's ``__dict__``, which all views of it share, while its directory is wanted by nobody yet."""


class Workdir:
    """``SubprocessRuntime.workdir``. Reading it makes the directory. Raises OSError."""

    def __get__(self, runtime: Any, owner: type | None = None) -> Any:
        if runtime is None:
            return self
        workdir = runtime.__dict__["workdir"]
        if runtime.__dict__.pop(_UNMADE, False):
            workdir.mkdir(parents=True)
        return workdir

    def __set__(self, runtime: Any, workdir: Path | None) -> None:
        runtime.__dict__["workdir"] = workdir


def install(runtime: type[SubprocessRuntime]) -> None:
    """Replace ``start``, ``teardown`` and ``cleanup`` by ones that leave alone a directory nobody asked for."""
    plain_teardown, plain_cleanup = runtime.teardown, runtime.cleanup

    async def start(self: SubprocessRuntime) -> None:
        workdir = CACHE_DIR / "runtimes" / "subprocess" / self.name
        self.workdir = workdir
        self.__dict__[_UNMADE] = True
        self.info.id = str(workdir)

    async def teardown(self: SubprocessRuntime) -> None:
        # Without a directory there is no background process either: each is started in it.
        if not self.__dict__.pop(_UNMADE, False):
            await plain_teardown(self)

    def cleanup(self: SubprocessRuntime) -> None:
        if not self.__dict__.pop(_UNMADE, False):
            plain_cleanup(self)

    replacements = {"workdir": Workdir(), "start": start, "teardown": teardown, "cleanup": cleanup}
    for name, value in replacements.items():
        setattr(runtime, name, value)
