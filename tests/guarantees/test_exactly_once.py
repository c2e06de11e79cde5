"""The quick version of `make chaos`: a few kills at the points that matter most, into every sink."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from tests.guarantees.campaign import Campaign

if TYPE_CHECKING:
    from tests.conftest import Project


def test_every_row_is_in_every_sink_once_whatever_is_killed(platform: Project) -> None:
    campaign = Campaign(platform, uuid.uuid4().hex[:6])
    for point, times in (("some rows sent", 3), ("transaction committed", 2), ("all written", 1)):
        campaign.die_at(point, times)
    found = campaign.finish()
    assert set(found.missing) == {
        *("kafka", "postgres", "iceberg", "delta", "opensearch"),
        *("windows", "timers", "dead letters"),
    }
    assert not any(found.missing.values()), found
    assert not any(found.double.values()), found
    assert not found.disordered


def test_the_rig_sees_doubles_when_marks_are_not_looked_at(platform: Project) -> None:
    control = Campaign(platform, uuid.uuid4().hex[:6], every_sink=False)
    control.die_at("all written", 1, "numbers", FORGET="1")
    found = control.finish(FORGET="1")
    assert found.double["kafka"] > 0
    assert found.missing["kafka"] == 0
