"""Every derived system equals the database in the end, whatever is killed on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cdc.mirrors import Mirrors
from tests.conftest import wait_until

if TYPE_CHECKING:
    from tests.conftest import Project

_BETWEEN = 400  # transactions between two kills


def test_every_process_is_killed_in_turn(platform: Project) -> None:
    mirrors = Mirrors(platform)
    try:
        mirrors.begin()
        wait_until(mirrors.arrived, 120)
        for service in ("connect", "postgres", "kafka", "opensearch"):
            mirrors.kill_service(service)
            mirrors.go_on(_BETWEEN)
        mirrors.kill_driver()
        mirrors.go_on(_BETWEEN)
        mirrors.finish()
        assert mirrors.transactions > 1000
    finally:
        mirrors.close()
