"""Kafka, Debezium, a schema registry and Spark Structured Streaming as one Python product."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.connectors.console import Console
    from penstock.connectors.files import Files
    from penstock.connectors.formats import Csv, Json, Raw
    from penstock.connectors.generated import Generated
    from penstock.connectors.kafka import Kafka
    from penstock.connectors.memory import Memory
    from penstock.pipeline.declare import EventTime, Pipeline

__version__ = "0.1.0"

_HOMES = {
    "Console": "penstock.connectors.console",
    "Csv": "penstock.connectors.formats",
    "EventTime": "penstock.pipeline.declare",
    "Files": "penstock.connectors.files",
    "Generated": "penstock.connectors.generated",
    "Json": "penstock.connectors.formats",
    "Kafka": "penstock.connectors.kafka",
    "Memory": "penstock.connectors.memory",
    "Pipeline": "penstock.pipeline.declare",
    "Raw": "penstock.connectors.formats",
}

__all__ = [
    "Console",
    "Csv",
    "EventTime",
    "Files",
    "Generated",
    "Json",
    "Kafka",
    "Memory",
    "Pipeline",
    "Raw",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: `import penstock` stays quick."""
    if name not in _HOMES:
        raise AttributeError(f"penstock has no {name!r}; it has {', '.join(sorted(_HOMES))}")
    return getattr(importlib.import_module(_HOMES[name]), name)
