"""Errors that a client sees: an HTTP status and vLLM's JSON form of it."""

from dataclasses import dataclass

TYPES = {
    400: "BadRequestError",
    404: "NotFoundError",
    500: "InternalServerError",
    503: "ServiceUnavailableError",
}


@dataclass
class ApiError(Exception):
    """A request that is not served, with the reason in words for its sender."""

    status: int
    message: str
    param: str | None = None

    def body(self) -> dict[str, object]:
        """``{"error": {"message", "type", "param", "code"}}``."""
        kind = TYPES.get(self.status, "InternalServerError")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.status}}
