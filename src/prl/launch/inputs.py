"""What a run is made of besides its model, looked at before anything starts: environment modules, the data of ``sft``.

A wrong name would otherwise show only after servers and trainer have loaded for seconds. Nothing is imported to find
out: a module is looked for as the environment's server will look for it. Whether it also works is the server's to say.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

from prl.config import TrainSourceConfig
from prl.launch.exits import CONFIGURATION, RefusedError

_GROUPS = {"taskset": "tasksets", "env": "envs", "harness": "harnesses"}
"""Kinds of modules and the packages below ``verifiers.v1`` that are asked first for them."""


def check_sources(sources: Sequence[TrainSourceConfig], env_vars: Mapping[str, str]) -> None:
    """Raise RefusedError for the first source with a module that its server will not find.

    A server that was started elsewhere has its own modules, which nobody here can look for.
    """
    for index, source in enumerate(sources):
        if source.serve.address is not None:
            continue
        directories = _directories(source.path, env_vars)
        for key, kind, name in _named_modules(source):
            # The last part of owner/name@version, as verifiers has it.
            module = name.rsplit("/", 1)[-1].split("@", 1)[0].replace("-", "_").lower()
            if not _is_there(module, _GROUPS[kind], directories):
                where = ", ".join(directories)
                raise RefusedError(
                    CONFIGURATION,
                    f"orchestrator.train.source[{index}].{key} = {name!r}: no module {module!r} (of {module}.py) below "
                    f"verifiers.v1.{_GROUPS[kind]} or in {where}; give its directory as the source's path",
                )


def check_conversations(path: Path) -> None:
    """Raise RefusedError when the data of ``sft`` is not there, is empty, or does not begin with a conversation."""
    try:
        with path.open("rb") as file:
            first = next(((number, line) for number, line in enumerate(file, 1) if line.strip()), None)
    except OSError as error:
        raise RefusedError(
            CONFIGURATION, f"data.path = '{path}': {error.strerror} (relative to {Path.cwd()})"
        ) from None
    if first is None:
        raise RefusedError(CONFIGURATION, f"data.path = '{path}': holds no conversation")
    number, line = first
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict) or not isinstance(row.get("messages"), list):
        raise RefusedError(
            CONFIGURATION, f"data.path = '{path}': line {number} is not {{\"messages\": [...]}} as JSON on one line"
        )


def _named_modules(source: TrainSourceConfig) -> Iterator[tuple[str, str, str]]:
    """Key, kind and name of every module that an environment block names."""
    yield "env.taskset.id", "taskset", source.taskset_id
    if isinstance(source.env.get("id"), str) and source.env["id"]:
        yield "env.id", "env", source.env["id"]
    for seat, table in source.env.items():
        harness = table.get("harness") if isinstance(table, dict) else None
        if isinstance(harness, dict) and isinstance(harness.get("id"), str):
            yield f"env.{seat}.harness.id", "harness", harness["id"]


def _directories(path: Path | None, env_vars: Mapping[str, str]) -> list[str]:
    """Where a server of the run will look, in its order: its ``path``, its import path, what comes with this package.

    ``python -m`` puts the working directory first, where this process may have the directory of its script.
    """
    added = env_vars.get("PYTHONPATH", "").split(os.pathsep)
    package = find_spec("prl")
    bundled = [f"{root}/envs/bundled" for root in (package and package.submodule_search_locations) or ()]
    found = [str(path.absolute())] if path else []
    return list(dict.fromkeys(part for part in [*found, str(Path.cwd()), *added, *sys.path, *bundled] if part))


def _is_there(module: str, group: str, directories: Sequence[str]) -> bool:
    library = find_spec("verifiers")
    own = [f"{root}/v1/{group}" for root in (library and library.submodule_search_locations) or ()]
    # Of a module within a package only the package can be looked for without importing it.
    top = module.split(".", maxsplit=1)[0]
    return any(_is_module(PathFinder.find_spec(top, where)) for where in (own, directories)) or _installed(top)


def _installed(module: str) -> bool:
    """Whether a finder of another kind knows it, as some editable installations have one."""
    try:
        return _is_module(find_spec(module))
    except (ValueError, ImportError):
        return False


def _is_module(spec: ModuleSpec | None) -> bool:
    """A directory without ``__init__.py`` can be imported, but nothing can be in it."""
    return spec is not None and spec.origin is not None
