"""A rig by its name, for the tests of one sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contracts.given import Given
from tests.contracts.rigs import RIGS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.connectors.base import Context


@pytest.fixture
def given(request: pytest.FixtureRequest, context: Context, tmp_path: Path) -> Iterator[Given]:
    """The rig that a test names by `indirect`."""
    made = Given(RIGS[request.param](context), context, tmp_path)
    yield made
    for writer in made.writers:
        writer.close()
    made.rig.close()
