"""OpenSearch and HTTP: versions that never go back, keys that stay the same, refusals that are dead letters."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import penstock as ps
from penstock.errors import DeclarationError, TransientError

if TYPE_CHECKING:
    from tests.contracts.given import Given
    from tests.contracts.rigs import HttpRig

SEARCH = pytest.mark.parametrize("given", ["opensearch"], indirect=True)
HTTP = pytest.mark.parametrize("given", ["http"], indirect=True)


def service(given: Given) -> HttpRig:
    return given.rig  # type: ignore[return-value]


@SEARCH
def test_an_old_document_never_comes_back(given: Given) -> None:
    index = given.rig.sink().index  # type: ignore[attr-defined]
    writer = given.opened(sink=ps.OpenSearch(index, key="id", version="at", delete="gone"))
    spark = given.context.spark

    def write(number: int, *rows: tuple[int, str, int, bool]) -> None:
        frame = spark.createDataFrame(rows, "id LONG, name STRING, at LONG, gone BOOLEAN")
        assert given.write(writer, {"a": frame}, given.batch(number)) == []

    first = ((1, "first", 10, False), (1, "older", 9, False), (2, "two", 11, False))
    write(0, *first)
    assert given.names() == ["first", "two"]
    write(1, (1, "newer", 20, False), (2, "two", 21, True))
    assert given.names() == ["newer"]
    write(2, *first)  # a batch of long ago
    write(3, (1, "late", 15, False))
    assert given.names() == ["newer"]
    write(4, (2, "again", 22, False))
    assert given.names() == ["again", "newer"]


@SEARCH
def test_a_document_that_is_rejected_is_a_letter(given: Given) -> None:
    index = given.rig.sink().index  # type: ignore[attr-defined]
    mapping = {"properties": {"name": {"type": "integer"}}}
    writer = given.opened(sink=ps.OpenSearch(index, key="id", mapping=mapping))
    letters = given.write(writer, {"a": given.frame((1, "17"), (2, "many"), (3, "18"))}, given.batch(0))
    ((_, key, letter),) = letters
    assert key == b"2"
    assert json.loads(letter["value"])["name"] == "many"
    assert "failed to parse" in letter["message"]
    assert letter["rule"] == "refused by opensearch"
    assert given.names() == ["17", "18"]


@SEARCH
def test_a_version_must_be_a_number(given: Given) -> None:
    with pytest.raises(DeclarationError, match="is string, not a whole number"):
        ps.OpenSearch("i", key="id", version="name").check(given.frame(), given.context)


@HTTP
def test_a_row_has_the_same_key_whenever_it_is_sent(given: Given) -> None:
    rows = given.frame(*((n % 7, f"row {n % 7}") for n in range(20)))
    given.write(given.opened(), {"a": rows}, given.batch(0))
    assert len(service(given).service.taken) == 20
    given.write(given.opened(), {"a": rows.orderBy("id")}, given.batch(0))  # again, in another order
    assert len(service(given).service.taken) == 20
    assert set(service(given).service.calls.values()) == {2}
    given.write(given.opened(), {"a": rows}, given.batch(1))  # the same rows once more are other rows
    assert len(service(given).service.taken) == 40
    named = given.opened(sink=ps.Http(f"{service(given).service.url}/a", key="concat('order-', id)"))
    given.write(named, {"a": given.frame((1, "one"))}, given.batch(2))
    assert "order-1" in service(given).service.taken


@HTTP
def test_what_fails_in_passing_is_sent_again_and_4xx_is_a_letter(given: Given) -> None:
    service(given).service.answers = {"slow": [503, 429, 500], "wrong": [422]}
    letters = given.write(given.opened(), {"a": given.frame((1, "slow"), (2, "wrong"), (3, "good"))}, given.batch(0))
    assert given.names() == ["good", "slow"]
    ((_, _, letter),) = letters
    assert json.loads(letter["value"])["name"] == "wrong"
    assert letter["message"].startswith("422 Unprocessable")


@HTTP
def test_a_service_that_is_away_is_waited_for_by_the_batch(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.connectors.http_writer._TRIES", 2)
    service(given).service.answers = {"one": [503] * 50}
    with pytest.raises(TransientError, match="does not take rows \\(503"):
        given.write(given.opened(), {"a": given.frame((1, "one"))}, given.batch(0))
    service(given).service.answers.clear()
    given.write(given.opened(), {"a": given.frame((1, "one"))}, given.batch(0))
    assert given.names() == ["one"]


@HTTP
def test_addresses_and_secrets(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    problems = list(ps.Http("ftp://x", method="GET", concurrency=0).problems())
    assert len(problems) == 3
    sink = ps.Http("http://user:canary@host:99/path?token=canary", headers={"A": ps.Secret(env="TOKEN")})
    assert [problem for problem, _ in sink.problems()] == ["A password does not belong into an address."]
    assert sink.target() == "http:http://host:99/path"
    monkeypatch.setenv("TOKEN", "canary")
    assert "canary" not in str(sink.headers)


@HTTP
def test_a_service_that_is_elsewhere_is_told_and_takes_nothing(given: Given) -> None:
    for status in (301, 401, 404):
        service(given).service.answers = {"one": [status]}
        with pytest.raises(DeclarationError, match=f"answers {status}"):
            given.write(given.opened(), {"a": given.frame((1, "one"))}, given.batch(0))
    assert given.names() == []
