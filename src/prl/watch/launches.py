"""How an attempt was started, and on which ports its parts listen: what it takes to start it again."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from prl.rundir.configs import AttemptConfigs
from prl.rundir.locate import RunFiles
from prl.rundir.untyped import as_object
from prl.watch.surroundings import Launch

_MAX_DEPTH = 12


def launch_facts(files: RunFiles, configs: AttemptConfigs, ports: dict[str, int], script: str | None) -> Launch | None:
    """How the attempt was started; None where nothing was left of it. ``ports``: as the launcher has them."""
    places = files.configs.relative_to(files.root).as_posix() if files.configs is not None else None
    surroundings = as_object(configs.environment)
    if configs.command is None and not surroundings and not configs.documents:
        return None
    return Launch(
        command=configs.command,
        command_source=f"{places}/command.txt" if configs.command is not None else None,
        cwd=_text(surroundings.get("cwd")),
        interpreter=_text(as_object(surroundings.get("python")).get("interpreter")),
        host=_text(as_object(surroundings.get("host")).get("name")),
        source=f"{places}/environment.json" if surroundings else None,
        ports=sorted(set(_whole(ports.values())) if ports else {*_configured(configs), *_listening(configs)}),
        script=script,
    )


def _listening(configs: AttemptConfigs) -> Iterator[int]:
    """Ports of environment servers, which the system chose."""
    for address in configs.addresses.values():
        yield from _port_of(address)


def _configured(configs: AttemptConfigs) -> Iterator[int]:
    """Every value that is called a port, and the ports of addresses of this host."""
    for name, document in configs.documents.items():
        if not PurePosixPath(name).is_relative_to("envs"):
            yield from _ports(document, _MAX_DEPTH)


def _ports(value: Any, depth: int) -> Iterator[int]:
    if depth == 0:
        return
    if isinstance(value, list):
        for entry in value:
            yield from _ports(entry, depth - 1)
    for key, entry in as_object(value).items():
        if key == "port" or key.endswith("_port"):
            yield from _whole([entry])
        elif isinstance(entry, str) and key.endswith("base_url"):
            yield from _port_of(entry) if "//localhost" in entry or "//127.0.0.1" in entry else ()
        else:
            yield from _ports(entry, depth - 1)


def _port_of(address: str) -> Iterator[int]:
    try:
        port = urlsplit(address).port
    except ValueError:
        return
    if port:
        yield port


def _whole(values: Any) -> Iterator[int]:
    return (value for value in values if type(value) is int and 0 < value < 65536)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
