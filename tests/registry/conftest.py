"""Schemas of a shop, under subjects of the test's own."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from penstock.registry.client import Registry
from penstock.registry.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Project


@pytest.fixture
def registry(platform: Project) -> Iterator[Registry]:
    """A client of the real registry."""
    with Registry(platform.settings.registry) as client:
        yield client


@pytest.fixture
def subject() -> str:
    """A subject that no other test has."""
    return f"orders-{uuid.uuid4().hex[:8]}-value"


def order(*fields: dict[str, Any], name: str = "Order") -> Schema:
    """An order with an id and other fields."""
    told = {"type": "record", "name": name, "namespace": "shop", "fields": [{"name": "id", "type": "long"}, *fields]}
    return Schema("AVRO", json.dumps(told))


AMOUNT = {"name": "amount", "type": "double", "default": 0.0}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
