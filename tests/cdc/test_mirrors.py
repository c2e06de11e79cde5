"""Every derived system equals the database in the end, whatever is killed on the way."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.cdc.mirrors import Mirrors

if TYPE_CHECKING:
    from tests.conftest import Project

_PAUSE = 8.0  # changes go on between two kills


def test_every_process_is_killed_in_turn(platform: Project) -> None:
    mirrors = Mirrors(platform)
    try:
        mirrors.begin()
        time.sleep(3 * _PAUSE)
        for service in ("connect", "postgres", "kafka", "opensearch"):
            mirrors.kill_service(service)
            time.sleep(_PAUSE)
        mirrors.kill_driver()
        time.sleep(_PAUSE)
        mirrors.finish()
        assert mirrors.transactions > 1000
    finally:
        mirrors.close()
