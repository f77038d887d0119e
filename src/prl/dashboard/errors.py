"""What a request can fail with: one form for every route, ``{"error": {"kind": ..., "message": ...}}``."""

from collections.abc import Mapping


class ApiError(Exception):
    """A request that cannot be answered, said to the client. ``kind`` is stable; ``message`` is for a person."""

    def __init__(self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.headers = dict(headers or {})

    def to_json(self) -> dict[str, object]:
        """Plain JSON. What a path holds that is no text (a file's name may be any bytes) is replaced."""
        return {"error": {"kind": self.kind, "message": self.message.encode(errors="replace").decode()}}


class NotModified(Exception):  # noqa: N818 - an answer, not an error
    """The client has the answer already."""


def bad_parameter(name: str, message: str) -> ApiError:
    """400: a parameter that is not what the route takes."""
    return ApiError(400, "bad_parameter", f"{name}: {message}")


def not_found(what: str) -> ApiError:
    """404: a run, episode, file or page that is not there."""
    return ApiError(404, "not_found", what)
