from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from penstock.errors import SetupError
from penstock.local import ports

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def taken(address: str = "127.0.0.1") -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind((address, 0))
        holder.listen(1)
        yield holder.getsockname()[1]


def choose(wanted: dict[str, int], **options: dict[str, int]) -> tuple[dict[str, int], list[str]]:
    said: list[str] = []
    named = {"pinned": {}, "remembered": {}, **options}
    with ports.Claims() as claims:
        chosen = ports.choose(wanted, claims, pinned=named["pinned"], remembered=named["remembered"], say=said.append)
    return chosen, said


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_a_taken_port_is_seen_whatever_address_holds_it(address: str) -> None:
    with taken(address) as port:
        assert not ports.is_free(port)


def test_the_next_free_port_is_taken_and_said() -> None:
    with taken() as port:
        chosen, said = choose({"kafka": port})
    assert chosen["kafka"] > port
    assert said == [f"Port {port} is taken by another program; kafka listens on {chosen['kafka']}."]


def test_a_remembered_port_wins_over_the_usual_one() -> None:
    with taken() as port:
        pass
    chosen, said = choose({"kafka": 1}, remembered={"kafka": port})
    assert chosen == {"kafka": port}
    assert said == []


def test_two_names_never_get_one_port() -> None:
    with taken() as port:
        chosen, _ = choose({"a": port, "b": port, "c": port})
    assert len(set(chosen.values())) == 3


def test_a_port_that_another_service_remembers_is_left_to_it() -> None:
    with taken() as port:
        pass
    chosen, _ = choose({"a": port}, remembered={"b": port})
    assert chosen["a"] != port


def test_a_pinned_port_that_is_taken_is_refused_with_the_remedy() -> None:
    with taken() as port, pytest.raises(SetupError, match=rf"Port {port}.*local\.ports\.kafka"):
        choose({"kafka": 9092}, pinned={"kafka": port})


def test_two_starts_at_once_never_get_one_port() -> None:
    with taken() as port:
        pass
    with ports.Claims() as mine, ports.Claims() as theirs:
        assert mine.take(port)
        assert not theirs.take(port)
        assert ports.choose({"kafka": port}, theirs, pinned={}, remembered={}, say=print)["kafka"] > port
    with ports.Claims() as later:
        assert later.take(port)
