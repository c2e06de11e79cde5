"""Questions to an HTTP service: bounded requests at once, again after what may pass."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx

from penstock.connectors.retry_after import retry_after
from penstock.pipeline.durations import seconds
from penstock.pipeline.lookups.answer import NOTHING, Answer, Client
from penstock.pipeline.lookups.back_off import LONGEST, back_off

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.pipeline.lookups.answer import Question
    from penstock.pipeline.lookups.declared import HttpLookup

__all__ = ["HttpClient"]

_NOTHING = (204, 404)
_PASSING = (408, 425, 429)
_LARGEST = 1 << 20
_NO_PART = ("", ".", "..")


class HttpClient(Client):
    """The requests of one Python worker to one service."""

    def __init__(self, lookup: HttpLookup) -> None:
        self._lookup = lookup
        self._seconds = seconds(lookup.timeout) or 0.0
        headers = {name: value if isinstance(value, str) else value.reveal() for name, value in lookup.headers.items()}
        limits = httpx.Limits(max_connections=lookup.concurrency, max_keepalive_connections=lookup.concurrency)
        self._client = httpx.Client(
            timeout=self._seconds, limits=limits, headers={"Accept": "application/json", **headers}
        )

    def ask(self, questions: Sequence[Question]) -> Mapping[Question, Answer]:
        """A request for each."""
        with ThreadPoolExecutor(min(self._lookup.concurrency, len(questions))) as pool:
            return dict(zip(questions, pool.map(self._patiently, questions), strict=True))

    def close(self) -> None:
        """End the connections."""
        self._client.close()

    def _patiently(self, question: Question) -> Answer:
        tries = self._lookup.retries + 1
        for tried in range(1, tries + 1):
            answer, wait = self._once(question)
            if not answer.passing:
                return answer
            if tried < tries:
                time.sleep(wait or back_off(tried))
        often = f" ({tries} tries)" if tries > 1 else ""
        return Answer(rule=answer.rule, said=f"{answer.said}{often}", passing=True)

    def _once(self, question: Question) -> tuple[Answer, float | None]:
        """One try, and how long the service wants us to wait before the next."""
        values = dict(zip(self._lookup.asks_by, question, strict=True))
        for name in self._lookup.in_path:
            if values[name] in _NO_PART:  # it would ask for something else
                return self._failed("no question", f"can't be asked for {name} {values[name]!r}"), None
        until = time.monotonic() + self._seconds
        try:
            with self._client.stream("GET", self._lookup.address(values)) as response:
                body = b""
                for part in response.iter_bytes():
                    body += part
                    if len(body) > _LARGEST:
                        return self._failed("wrong answer", f"answers more than {_LARGEST >> 20} MiB"), None
                    if time.monotonic() > until:
                        raise httpx.ReadTimeout("the answer came too slowly")
        except httpx.TimeoutException:
            return self._failed("no answer", f"gave no answer within {self._lookup.timeout}", passing=True), None
        except httpx.HTTPError as error:
            return self._failed("no answer", f"gave no answer: {type(error).__name__}", passing=True), None
        return self._heard(response, body), retry_after(response, LONGEST)

    def _heard(self, response: httpx.Response, body: bytes) -> Answer:
        status = response.status_code
        text = body.decode(errors="replace")
        if status in _NOTHING:
            return NOTHING
        if status >= 300:
            passing = status >= 500 or status in _PASSING
            said = f"answers {status} {response.reason_phrase}: {text[:300]}".rstrip(": ")
            return self._failed("no answer" if passing else "refused by http", said, passing=passing)
        try:
            whole = isinstance(json.loads(body), dict)
        except ValueError:
            whole = False
        return Answer(text) if whole else self._failed("wrong answer", f"answers no JSON object: {text[:300]}")

    def _failed(self, rule: str, said: str, *, passing: bool = False) -> Answer:
        return Answer(rule=rule, said=f"{self._lookup.target()} {said}", passing=passing)
