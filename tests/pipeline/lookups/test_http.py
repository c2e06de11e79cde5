"""An HTTP service as a lookup asks it: what is answered, what is tried again, what is never told."""

from __future__ import annotations

import json
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import penstock as ps
from penstock.connectors.retry_after import retry_after
from penstock.pipeline.lookups import http
from penstock.pipeline.lookups.answer import NOTHING, Answer
from tests.pipeline.lookups.service import Service, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def service() -> Iterator[Service]:
    with serving() as made:
        yield made


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long it would have been waited before each further try; nobody waits."""
    found: list[float] = []
    waits_by(found.append, monkeypatch)
    return found


def waits_by(sleep: Callable[[float], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The lookup alone waits so: other threads of this process keep the true clock."""
    monkeypatch.setattr(http, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))


def asked(service: Service, *keys: str, **how: Any) -> list[Answer]:
    lookup = ps.HttpLookup(f"{service.url}/customers/{{id}}", returns="name STRING, tier STRING", **how)
    client = http.HttpClient(lookup)
    answers = client.ask([(key,) for key in keys])
    client.close()
    return [answers[key,] for key in keys]


def test_an_answer_is_a_json_object_and_404_is_none(service: Service) -> None:
    service.says("gone", 404, b"no such customer")
    known, gone = asked(service, "7", "gone")
    assert json.loads(known.text or "") == {"name": "name 7", "tier": "gold", "more": [1]}
    assert gone == NOTHING


def test_values_in_an_address_can_not_change_its_shape(service: Service) -> None:
    odd = "a/b?c=d&e#f%2F ü"
    (found,) = asked(service, odd)
    assert json.loads(found.text or "")["name"] == f"name {odd}"
    assert list(service.calls) == [odd]
    for key in ("", ".", ".."):
        (refused,) = asked(service, key)
        assert refused.rule == "no question"
    assert list(service.calls) == [odd]


def test_no_more_requests_at_once_than_allowed(service: Service) -> None:
    service.at_once = threading.Barrier(4)  # none is answered before four have come
    assert all(one.text for one in asked(service, *map(str, range(40)), concurrency=4))
    assert service.peak == 4
    assert service.calls.total() == 40


def test_what_may_pass_is_tried_again_later_each_time(service: Service, waits: list[float]) -> None:
    good = json.dumps({"tier": "late"}).encode()
    service.says_in_turn("7", (503, b""), (429, b""), (500, b""), (200, good))
    assert asked(service, "7", retries=3) == [Answer(good.decode())]
    assert service.calls["7"] == 4
    assert len(waits) == 3
    assert all(low <= wait <= high for wait, low, high in zip(waits, (0.1, 0.2, 0.4), (0.2, 0.4, 0.8), strict=True))


def test_a_service_says_how_long_to_wait() -> None:
    def wait(text: str) -> float | None:
        return retry_after(httpx.Response(429, headers={"Retry-After": text}), 10.0)

    assert [wait(text) for text in ("3", "600", "0", "Wed, 21 Oct 2026 07:28:00 GMT")] == [3.0, 10.0, None, None]


def test_what_does_not_pass_says_which_service_and_what_it_said(service: Service, waits: list[float]) -> None:
    where = f"http:{service.url}/customers/{{id}}"
    service.says("down", 503, b"come back later")
    (down,) = asked(service, "down", retries=1)
    assert down == Answer(
        None, "no answer", f"{where} answers 503 Service Unavailable: come back later (2 tries)", True
    )
    service.hangs("slow")
    (slow,) = asked(service, "slow", retries=0, timeout="50 milliseconds")
    assert slow == Answer(None, "no answer", f"{where} gave no answer within 50 milliseconds", True)
    assert service.calls == {"down": 2, "slow": 1}


@pytest.mark.parametrize(
    ("status", "body", "rule"),
    [
        (400, b"bad id", "refused by http"),
        (403, b"", "refused by http"),
        (301, b"", "refused by http"),
        (200, b"<html>", "wrong answer"),
        (200, b"[1]", "wrong answer"),
        (200, b"", "wrong answer"),
        (200, b'{"name": "' + b"x" * (1 << 20) + b'"}', "wrong answer"),
    ],
)
def test_what_would_come_again_is_not_tried_again(service: Service, status: int, body: bytes, rule: str) -> None:
    service.says("7", status, body)
    (found,) = asked(service, "7")
    assert (found.rule, found.passing, service.calls["7"]) == (rule, False, 1)


def test_a_service_that_is_killed_and_comes_back_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as first:
        port = first.port
        client = http.HttpClient(ps.HttpLookup(f"{first.url}/customers/{{id}}", returns="name STRING", retries=2))
        assert client.ask([("1",)])["1",].text
    back: list[Service] = []

    def comes_back(_: float) -> None:
        if not back:
            back.append(Service(port))

    waits_by(comes_back, monkeypatch)
    assert client.ask([("2",)])["2",].text
    client.close()
    (again,) = back
    again.stop()
    assert again.calls == {"2": 1}


def test_headers_are_sent_and_never_shown(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_TOKEN", "Bearer geheim")
    lookup = ps.HttpLookup(
        f"{service.url}/customers/{{id}}?key=geheim",
        returns="name STRING",
        headers={"Authorization": ps.Secret(env="CRM_TOKEN"), "X-Plain": "geheim"},
    )
    client = http.HttpClient(lookup)
    service.says("7?key=geheim", 400, b"no")
    said = client.ask([("7",)])["7",].said
    client.close()
    assert service.headers == {"Bearer geheim"}
    assert said is not None
    assert "geheim" not in f"{lookup!r} {lookup} {lookup.target()} {said}"
