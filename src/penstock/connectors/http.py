"""Any HTTP service as a sink: a request per row, with a key by which the service knows it again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit

from penstock.connectors.base import Context, IdempotentSink

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame

    from penstock.connectors.http_writer import HttpWriter
    from penstock.connectors.writing import Opening
    from penstock.settings import Secret

__all__ = ["Http"]

_METHODS = ("POST", "PUT", "PATCH")


@dataclass(frozen=True)
class Http(IdempotentSink):
    """Each row as JSON in a request of its own to `url`.

    The header `Idempotency-Key` is the same whenever a row is sent again: made of the `key`, a SQL expression such as
    `key="order_id"`, or else of the batch and the row itself. `concurrency` requests are under way at once; those that
    fail in passing come again, later each time; what is answered with 4xx is a dead letter. Values of `headers` may be
    `Secret(env="TOKEN")`.
    """

    url: str
    key: str | None = None
    method: str = "POST"
    headers: Mapping[str, str | Secret] = field(default_factory=dict)
    concurrency: int = 8
    timeout_seconds: float = 10.0

    system: ClassVar = "http"
    summary: ClassVar = "A request per row to an HTTP service, with an idempotency key; 4xx is a dead letter."
    sentence: ClassVar = (
        "every row is sent, after a failure some again with the same key: exactly-once if the service knows keys again"
    )

    def target(self) -> str:
        """The address without user, password and query."""
        parts = urlsplit(self.url)
        return f"http:{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"

    def problems(self) -> Iterator[tuple[str, str]]:
        """Addresses that are none, methods that change nothing."""
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            yield f"{self.target()[5:]!r} is not an address.", "Write http://… or https://…"
        if parts.password:
            yield "A password does not belong into an address.", "Give a header: headers={'Authorization': Secret(…)}."
        if self.method not in _METHODS:
            yield f"method={self.method!r} is not known.", f"Write one of {', '.join(_METHODS)}."
        if not 1 <= self.concurrency <= 64:
            yield "concurrency must be from 1 to 64.", "Leave it out for 8."

    def check(self, rows: DataFrame, context: Context) -> None:
        """The key is made of columns that are there."""
        if self.key:
            rows.selectExpr(f"CAST({self.key} AS STRING)")

    def open(self, opening: Opening) -> HttpWriter:
        """The requests of one service."""
        from penstock.connectors.http_writer import HttpWriter

        ((flow, _),) = opening.sinks
        return HttpWriter(opening, flow, self)
