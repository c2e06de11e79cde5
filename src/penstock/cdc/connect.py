"""Kafka Connect's REST interface, its errors as sentences."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx

from penstock.errors import DeclarationError, SetupError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.settings import Connect as Settings

__all__ = ["Connect", "first_sentence"]

_BUSY = 409  # a rebalance is under way
_BUSY_SECONDS = 60.0
_GONE_SECONDS = 15.0


class Connect:
    """One Connect cluster."""

    def __init__(self, settings: Settings) -> None:
        self.url = settings.url
        optional: dict[str, Any] = {"verify": settings.ca_file} if settings.ca_file else {}
        if settings.username and settings.password:
            optional["auth"] = (settings.username, settings.password.reveal())
        self._client = httpx.Client(base_url=settings.url, timeout=30.0, **optional)

    def close(self) -> None:
        """End the connections."""
        self._client.close()

    def names(self) -> list[str]:
        """All connectors."""
        found: list[str] = self._ask("GET", "/connectors")
        return sorted(found)

    def config(self, name: str) -> dict[str, str] | None:
        """A connector's configuration, None if there is no such connector."""
        found: dict[str, str] | None = self._ask("GET", f"/connectors/{quote(name)}/config", absent=True)
        return found

    def status(self, name: str) -> dict[str, Any] | None:
        """What the worker says of a connector and its tasks, None if there is no such connector."""
        found: dict[str, Any] | None = self._ask("GET", f"/connectors/{quote(name)}/status", absent=True)
        return found

    def put(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector, or give it another configuration."""
        self._ask("PUT", f"/connectors/{quote(name)}/config", json=dict(config))

    def pause(self, name: str) -> None:
        """Let it rest: its tasks stay, and read nothing."""
        self._ask("PUT", f"/connectors/{quote(name)}/pause")

    def resume(self, name: str) -> None:
        """Let it go on."""
        self._ask("PUT", f"/connectors/{quote(name)}/resume")

    def stop(self, name: str) -> None:
        """End its tasks, and keep its place."""
        self._ask("PUT", f"/connectors/{quote(name)}/stop")

    def forget(self, name: str) -> None:
        """Forget how far a stopped connector has read."""
        self._ask("DELETE", f"/connectors/{quote(name)}/offsets", absent=True)

    def offsets(self, name: str) -> list[dict[str, Any]]:
        """How far a connector has read, as it notes it."""
        found = self._ask("GET", f"/connectors/{quote(name)}/offsets", absent=True)
        return list(found["offsets"]) if found else []

    def move(self, name: str, offsets: list[dict[str, Any]]) -> None:
        """Let a stopped connector go on from elsewhere."""
        self._ask("PATCH", f"/connectors/{quote(name)}/offsets", json={"offsets": offsets})

    def delete(self, name: str) -> None:
        """Remove a connector; the workers hear of it a moment later."""
        self._ask("DELETE", f"/connectors/{quote(name)}", absent=True)
        deadline = time.monotonic() + _GONE_SECONDS
        while self.status(name) is not None and time.monotonic() < deadline:
            time.sleep(0.1)

    def wait(self, name: str, reached: Callable[[dict[str, Any]], bool], seconds: float) -> dict[str, Any]:
        """The status once it is as wanted; what it is after so many seconds otherwise."""
        deadline = time.monotonic() + seconds
        while True:
            status = self.status(name) or {"connector": {"state": "UNASSIGNED"}, "tasks": []}
            if reached(status) or time.monotonic() > deadline:
                return status
            time.sleep(0.2)

    def _ask(self, method: str, path: str, *, json: Any = None, absent: bool = False) -> Any:
        deadline = time.monotonic() + _BUSY_SECONDS
        while True:
            try:
                answer = self._client.request(method, path, json=json)
            except httpx.TransportError as error:
                raise TransientError(
                    f"Kafka Connect does not answer at {self.url} ({type(error).__name__}).",
                    code="connect-away",
                    remedy="Start it (`penstock up connect`), or correct its url in penstock.toml.",
                ) from error
            if answer.status_code != _BUSY or time.monotonic() > deadline:
                break
            time.sleep(0.3)
        if absent and answer.status_code == httpx.codes.NOT_FOUND:
            return None
        if answer.is_success:
            return answer.json() if answer.content else None
        raise self._error(answer)

    def _error(self, answer: httpx.Response) -> Exception:
        try:
            said = str(answer.json().get("message", ""))
        except ValueError:
            said = answer.text
        if answer.status_code in (401, 403):
            return SetupError(
                f"Kafka Connect at {self.url} does not let us in.",
                code="connect-refused",
                remedy="Set username and password of [profiles.….connect].",
            )
        return DeclarationError(
            f"Kafka Connect refuses it: {first_sentence(said)}",
            code="connect-refused",
            remedy="Correct the capture; `penstock logs connect` has more.",
        )


def first_sentence(trace: str) -> str:
    """What a Java trace says in a line: the innermost cause, without the names of classes."""
    lines = [line.strip() for line in trace.splitlines() if line.strip() and not line.strip().startswith("at ")]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    chosen = causes[-1] if causes else lines[0] if lines else "nothing"
    head, _, rest = chosen.partition(": ")
    text = rest if rest and head.replace(".", "").replace("$", "").isalnum() and "." in head else chosen
    return " ".join(text.split())[:400].rstrip(".") + "."
