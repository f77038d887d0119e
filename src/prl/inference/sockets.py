"""Listening addresses, taken before anything slow: a port in use ends the start at once, naming the key to change."""

import socket
from dataclasses import dataclass


class PortError(RuntimeError):
    """An address that cannot be taken, with the configuration key that chose it."""


@dataclass(frozen=True)
class Address:
    """A bound socket of the server and the configuration key that chose its port."""

    socket: socket.socket
    host: str
    port: int
    key: str

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def listen(self, backlog: int) -> None:
        """Accept connections. Two sockets may be bound to one address until one of them listens."""
        try:
            self.socket.listen(backlog)
        except OSError as error:
            raise _port_error(self.host, self.port, self.key, error) from error


def take_port(host: str, port: int, key: str) -> Address:
    """Bind ``host:port`` without listening yet, so that clients are refused until the server is up.

    Raises PortError.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise PortError(f"{host}: {error.strerror or error}. Change server.host") from error
    taken = socket.socket(family, kind, protocol)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
    except OSError as error:
        taken.close()
        raise _port_error(host, port, key, error) from error
    return Address(taken, host, port, key)


def _port_error(host: str, port: int, key: str, error: OSError) -> PortError:
    reason = (error.strerror or str(error)).lower()
    return PortError(f"{host}:{port}: {reason}. Change {key} or stop the process that uses the port")
