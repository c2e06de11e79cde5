"""A batch into OpenSearch: bulk requests that may be sent again, because every document has its id and version."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from penstock.connectors.base import quoted
from penstock.connectors.keyed import DELETED, VERSION, keyed, refused_letters
from penstock.connectors.letters import dead_letters, envelope
from penstock.connectors.staged import Staged
from penstock.connectors.writing import START_OVER, Batch, Letter, Opening, Successor, Writer
from penstock.errors import SetupError, StateError, TransientError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame

    from penstock.connectors.base import BatchSink
    from penstock.connectors.opensearch import OpenSearch

__all__ = ["OpenSearchWriter"]

_PIECE = 2_000
_BYTES = 4 << 20
_TRIES = 6
_BUSY = (429, 502, 503, 504)
_KEPT_DELETES = "1d"  # so long a deleted document is not brought back by an older row


@dataclass(frozen=True)
class _Operation:
    """One line or two of a bulk request."""

    id: str
    lines: bytes
    row: str


class OpenSearchWriter(Writer, Successor):
    """The documents of one index."""

    def __init__(self, opening: Opening, flow: str, sink: OpenSearch) -> None:
        self._opening = opening
        self._flow = flow
        self._sink = sink
        self._settings = opening.context.settings.opensearch
        self._client: httpx.Client | None = None

    def write(self, rows: Mapping[str, DataFrame], batch: Batch) -> None:
        """Send the last row of each key; what is rejected is a dead letter."""
        sink, given = self._sink, rows[self._flow]
        changes = batch.once("keyed", lambda: keyed(given, sink.keys, sink.delete, batch, order=sink.position(given)))
        staged = Staged(self._documents(changes.last), batch.folder / "opensearch")
        batch.reached("rows staged")
        try:
            refused = refused_letters(self._opening, self._flow, changes.without_key, "opensearch")
            for operations in self._requests(staged):
                refused += self._sent(operations)
                batch.reached("some rows sent")
            batch.refuse(refused)
            batch.reached("all sent")
        finally:
            staged.remove()
        changes.remove()

    def take_place_of(self, sink: BatchSink) -> None:
        """Let the name be an alias of this index, in one step with the end of what had it before."""
        assert isinstance(sink, type(self._sink))
        had = self._ask("GET", f"/{sink.index}/_alias")
        actions: list[dict[str, Any]] = [{"remove_index": {"index": name}} for name in had]
        actions.append({"add": {"index": self._sink.index, "alias": sink.index}})
        self._ask("POST", "/_aliases", json.dumps({"actions": actions}).encode())

    def close(self) -> None:
        """End the connections."""
        if self._client is not None:
            self._client.close()
        self._client = None

    def _documents(self, last: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        keys = [column.cast("string") for column in quoted(self._sink.keys)]
        name = keys[0] if len(keys) == 1 else F.to_json(F.array(*keys))
        shown = [column for column in last.columns if column not in (DELETED, VERSION)]
        return last.select(
            name.alias("id"),
            F.col(VERSION).cast("long").alias("version"),
            F.col(DELETED).alias("deleted"),
            F.to_json(F.struct(*quoted(shown))).alias("row"),
        )

    def _requests(self, staged: Staged) -> Iterator[list[_Operation]]:
        waiting: list[_Operation] = []
        size = 0
        for piece in staged.pieces(_PIECE):
            for row in piece.to_pylist():
                one = self._operation(row)
                if waiting and size + len(one.lines) > _BYTES:
                    yield waiting
                    waiting, size = [], 0
                waiting.append(one)
                size += len(one.lines)
        if waiting:
            yield waiting

    def _operation(self, row: dict[str, Any]) -> _Operation:
        about: dict[str, Any] = {"_id": row["id"]}
        if row["version"] is not None:
            about |= {"version": row["version"], "version_type": "external_gte"}
        verb = "delete" if row["deleted"] else "index"
        lines = json.dumps({verb: about}) + "\n" + ("" if row["deleted"] else row["row"] + "\n")
        return _Operation(row["id"], lines.encode(), row["row"])

    def _sent(self, operations: list[_Operation]) -> list[Letter]:
        """Send until each is taken or rejected; those that it is too busy for come again, later each time."""
        refused: list[Letter] = []
        for tries in range(_TRIES):
            answer = self._ask("POST", f"/{self._sink.index}/_bulk", b"".join(one.lines for one in operations))
            busy = []
            for one, told in zip(operations, answer["items"], strict=True):
                ((verb, result),) = told.items()
                status = result["status"]
                if status in _BUSY:
                    busy.append(one)
                elif status == 404 and verb != "delete":
                    raise StateError(
                        f"Index {self._sink.index} is not there any more.", code="index-gone", remedy=START_OVER
                    )
                elif status >= 300 and status not in (404, 409):  # gone already, or newer already
                    refused.append(self._letter(one, result.get("error", {})))
            operations = busy
            if not operations:
                return refused
            time.sleep(min(0.2 * 2**tries, 5.0))
        raise TransientError(
            f"OpenSearch at {self._settings.url} is too busy for {len(operations)} documents.",
            code="opensearch-busy",
            remedy="It is tried again.",
        )

    def _letter(self, one: _Operation, error: dict[str, Any]) -> Letter:
        pipeline = self._opening.pipeline
        said = f"{error.get('type', 'error')}: {error.get('reason', '')}"
        key, letter = envelope(pipeline, self._flow, "refused by opensearch", said, {"key": one.id, "value": one.row})
        return dead_letters(pipeline), key, letter

    def _ask(self, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        """One request; an outside that is away is told as such."""
        try:
            client = self._opened()
            answer = client.request(method, path, content=body, headers={"Content-Type": "application/x-ndjson"})
        except httpx.HTTPError as error:
            raise TransientError(
                f"OpenSearch at {self._settings.url} does not answer ({type(error).__name__}).",
                code="opensearch-away",
                remedy="Start the local one with `penstock up opensearch`, or check the profile.",
            ) from error
        if answer.status_code in _BUSY:
            raise TransientError(
                f"OpenSearch at {self._settings.url} is busy ({answer.status_code}).",
                code="opensearch-busy",
                remedy="It is tried again.",
            )
        if answer.status_code >= 300:
            raise SetupError(
                f"OpenSearch at {self._settings.url} refuses {method} {path} ({answer.status_code}:"
                f" {answer.text[:200]}).",
                code="opensearch-refused",
                remedy="Check user, password and rights of the profile.",
            )
        found: dict[str, Any] = answer.json() if answer.content else {}
        return found

    def _opened(self) -> httpx.Client:
        if self._client is None:
            user, password = self._settings.username, self._settings.password
            auth = (user, password.reveal()) if user and password else None
            self._client = httpx.Client(
                base_url=self._settings.url, auth=auth, timeout=60.0, verify=self._settings.ca_file or True
            )
            self._make_index(self._client)
        return self._client

    def _make_index(self, client: httpx.Client) -> None:
        if client.head(f"/{self._sink.index}").status_code != 404:
            return
        body: dict[str, Any] = {"settings": {"index.gc_deletes": _KEPT_DELETES}}
        if self._sink.mapping:
            body["mappings"] = dict(self._sink.mapping)
        answer = client.put(f"/{self._sink.index}", json=body)
        if answer.status_code >= 300 and "resource_already_exists" not in answer.text:
            raise SetupError(
                f"OpenSearch does not make index {self._sink.index} ({answer.text[:200]}).",
                code="opensearch-index",
                remedy="Correct its mapping, or make it by hand.",
            )
