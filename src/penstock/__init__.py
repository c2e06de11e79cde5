"""Kafka, Debezium, a schema registry and Spark Structured Streaming as one Python product."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from penstock.connectors.catalogue import CONNECTORS

if TYPE_CHECKING:
    from penstock.cdc.capture import Capture, capture
    from penstock.connectors.avro import Avro
    from penstock.connectors.changes import Changes
    from penstock.connectors.console import Console
    from penstock.connectors.delta import Delta
    from penstock.connectors.files import Files
    from penstock.connectors.formats import Csv, Json, Raw
    from penstock.connectors.generated import Generated
    from penstock.connectors.http import Http
    from penstock.connectors.iceberg import Iceberg
    from penstock.connectors.json_schema import JsonSchema
    from penstock.connectors.kafka import Kafka
    from penstock.connectors.memory import Memory
    from penstock.connectors.opensearch import OpenSearch
    from penstock.connectors.postgres import Postgres
    from penstock.connectors.protobuf import Protobuf
    from penstock.pipeline.declare import EventTime, Pipeline, ProcessingTime
    from penstock.pipeline.keyed.feature import Count, Distinct, Last, Total
    from penstock.pipeline.keyed.pattern import Pattern, pattern
    from penstock.pipeline.keyed.states import ListState, MapState, ValueState
    from penstock.pipeline.lookups.declared import HttpLookup, SqlLookup
    from penstock.pipeline.operators.as_of import as_of
    from penstock.pipeline.operators.count_window import count_window
    from penstock.pipeline.operators.deduplicated import deduplicated
    from penstock.pipeline.operators.features import features
    from penstock.pipeline.operators.features_at import features_at
    from penstock.pipeline.operators.folded import folded
    from penstock.pipeline.operators.funnel import funnel
    from penstock.pipeline.operators.history_of import history_of
    from penstock.pipeline.operators.matches import matches
    from penstock.pipeline.operators.rows_of import rows_of
    from penstock.pipeline.operators.sessions import sessions
    from penstock.pipeline.operators.top import top
    from penstock.pipeline.operators.view import view
    from penstock.settings import Secret

__version__ = "0.1.0"

_HOMES = {
    **CONNECTORS,
    "Avro": "penstock.connectors.avro",
    "Capture": "penstock.cdc.capture",
    "Count": "penstock.pipeline.keyed.feature",
    "Csv": "penstock.connectors.formats",
    "Distinct": "penstock.pipeline.keyed.feature",
    "EventTime": "penstock.pipeline.declare",
    "HttpLookup": "penstock.pipeline.lookups.declared",
    "Json": "penstock.connectors.formats",
    "JsonSchema": "penstock.connectors.json_schema",
    "Last": "penstock.pipeline.keyed.feature",
    "ListState": "penstock.pipeline.keyed.states",
    "MapState": "penstock.pipeline.keyed.states",
    "Pattern": "penstock.pipeline.keyed.pattern",
    "Pipeline": "penstock.pipeline.declare",
    "ProcessingTime": "penstock.pipeline.declare",
    "Protobuf": "penstock.connectors.protobuf",
    "Raw": "penstock.connectors.formats",
    "Secret": "penstock.settings",
    "SqlLookup": "penstock.pipeline.lookups.declared",
    "Total": "penstock.pipeline.keyed.feature",
    "ValueState": "penstock.pipeline.keyed.states",
    "as_of": "penstock.pipeline.operators.as_of",
    "capture": "penstock.cdc.capture",
    "count_window": "penstock.pipeline.operators.count_window",
    "deduplicated": "penstock.pipeline.operators.deduplicated",
    "features": "penstock.pipeline.operators.features",
    "features_at": "penstock.pipeline.operators.features_at",
    "folded": "penstock.pipeline.operators.folded",
    "funnel": "penstock.pipeline.operators.funnel",
    "history_of": "penstock.pipeline.operators.history_of",
    "matches": "penstock.pipeline.operators.matches",
    "pattern": "penstock.pipeline.keyed.pattern",
    "rows_of": "penstock.pipeline.operators.rows_of",
    "sessions": "penstock.pipeline.operators.sessions",
    "top": "penstock.pipeline.operators.top",
    "view": "penstock.pipeline.operators.view",
}

__all__ = [
    "Avro",
    "Capture",
    "Changes",
    "Console",
    "Count",
    "Csv",
    "Delta",
    "Distinct",
    "EventTime",
    "Files",
    "Generated",
    "Http",
    "HttpLookup",
    "Iceberg",
    "Json",
    "JsonSchema",
    "Kafka",
    "Last",
    "ListState",
    "MapState",
    "Memory",
    "OpenSearch",
    "Pattern",
    "Pipeline",
    "Postgres",
    "ProcessingTime",
    "Protobuf",
    "Raw",
    "Secret",
    "SqlLookup",
    "Total",
    "ValueState",
    "__version__",
    "as_of",
    "capture",
    "count_window",
    "deduplicated",
    "features",
    "features_at",
    "folded",
    "funnel",
    "history_of",
    "matches",
    "pattern",
    "rows_of",
    "sessions",
    "top",
    "view",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: `import penstock` stays quick."""
    if name not in _HOMES:
        raise AttributeError(f"penstock has no {name!r}; it has {', '.join(sorted(_HOMES))}")
    return getattr(importlib.import_module(_HOMES[name]), name)
