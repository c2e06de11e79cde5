"""A batch to an HTTP service: bounded requests at once, each with its idempotency key."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx

from penstock.connectors.base import EXACT, quoted
from penstock.connectors.letters import dead_letters, envelope
from penstock.connectors.retry_after import retry_after
from penstock.connectors.staged import Staged
from penstock.connectors.writing import Batch, Letter, Opening, Writer
from penstock.errors import DeclarationError, TransientError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame

    from penstock.connectors.http import Http

__all__ = ["HttpWriter"]

_TRIES = 6
_PIECE = 1_000
_LONGEST_WAIT = 30.0
_NOT_HERE = (401, 403, 404, 405, 407)
_HEADER = re.compile(r"[\x21-\x7e]+")


class HttpWriter(Writer):
    """The requests of one query to one service."""

    def __init__(self, opening: Opening, flow: str, sink: Http) -> None:
        self._opening = opening
        self._flow = flow
        self._sink = sink
        self._client: httpx.Client | None = None
        self._stopped = threading.Event()
        self._once = opening.guarantee == "at-most-once"

    def write(self, rows: Mapping[str, DataFrame], batch: Batch) -> None:
        """Send every row; what is refused is a dead letter."""
        from pyspark.sql import functions as F  # noqa: N812

        given = rows[self._flow]
        body = F.to_json(F.struct(*quoted(given.columns)), EXACT).alias("row")
        key = F.expr(self._sink.key).cast("string") if self._sink.key else F.lit(None).cast("string")
        staged = batch.once("http", lambda: Staged(given.select(key.alias("key"), body), batch.folder / "http"))
        batch.reached("rows staged")
        self._stopped.clear()
        refused: list[Letter] = []
        keyed = self._keyed(staged, batch)
        self._opened()
        with ThreadPoolExecutor(self._sink.concurrency) as pool:
            while piece := list(islice(keyed, _PIECE)):
                refused += [one for one in pool.map(self._send, piece) if one is not None]
                batch.reached("some rows sent")
        batch.refuse(refused)
        batch.reached("all sent")
        staged.remove()

    def close(self) -> None:
        """End the connections."""
        if self._client is not None:
            self._client.close()
        self._client = None

    def _keyed(self, staged: Staged, batch: Batch) -> Iterator[tuple[str, str]]:
        """Each row with its key: the same whenever the batch comes again, in whatever order."""
        seen: Counter[bytes] = Counter()
        for piece in staged.pieces(_PIECE):
            for key, row in zip(piece.column("key").to_pylist(), piece.column("row").to_pylist(), strict=True):
                if key is not None:
                    yield key if _HEADER.fullmatch(key) else hashlib.sha256(key.encode()).hexdigest(), row
                    continue
                content = hashlib.sha256(row.encode()).digest()
                seen[content] += 1
                named = f"{self._opening.query_id}/{batch.number}/{content.hex()}/{seen[content]}"
                yield hashlib.sha256(named.encode()).hexdigest(), row

    def _send(self, item: tuple[str, str]) -> Letter | None:
        key, row = item
        said = ""
        for tries in range(1 if self._once else _TRIES):
            wait = min(0.2 * 2**tries, _LONGEST_WAIT)
            try:
                answer = self._opened().request(
                    self._sink.method, self._sink.url, content=row.encode(), headers={"Idempotency-Key": key}
                )
            except httpx.HTTPError as error:
                said = type(error).__name__
            else:
                if answer.status_code < 300:
                    return None
                said = f"{answer.status_code} {answer.reason_phrase}"
                if answer.status_code in _NOT_HERE or answer.status_code < 400:
                    raise self._misdirected(answer)
                if answer.status_code < 500 and answer.status_code not in (408, 425, 429):
                    return self._letter(key, row, f"{said}: {answer.text[:300]}")
                wait = retry_after(answer, _LONGEST_WAIT) or wait
            if self._stopped.wait(wait):
                break
        self._stopped.set()  # the others need not go on trying
        raise TransientError(
            f"The service at {self._sink.target()[5:]} does not take rows ({said}).",
            code="http-away",
            remedy="It is tried again, with the same keys.",
        )

    def _misdirected(self, answer: httpx.Response) -> DeclarationError:
        """An answer that is not about the row."""
        where = answer.headers.get("Location", "")
        return DeclarationError(
            f"The service at {self._sink.target()[5:]} answers {answer.status_code} {answer.reason_phrase}"
            f"{f', it is at {urlsplit(where).hostname} now' if where else ''}.",
            code="http-misdirected",
            remedy="Correct the address, or the headers that let us in.",
        )

    def _letter(self, key: str, row: str, said: str) -> Letter:
        pipeline = self._opening.pipeline
        name, letter = envelope(pipeline, self._flow, "refused by http", said, {"key": key, "value": row})
        return dead_letters(pipeline), name, letter

    def _opened(self) -> httpx.Client:
        if self._client is None:
            secret = {
                name: value if isinstance(value, str) else value.reveal() for name, value in self._sink.headers.items()
            }
            limits = httpx.Limits(max_connections=self._sink.concurrency)
            headers = {"Content-Type": "application/json", **secret}
            self._client = httpx.Client(timeout=self._sink.timeout_seconds, limits=limits, headers=headers)
        return self._client
