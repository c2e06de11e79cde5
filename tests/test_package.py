"""What the package promises about itself: its public names, and files that stay readable."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import penstock
import penstock.broker

ROOT = Path(__file__).parents[1]


def test_public_names() -> None:
    assert sorted(penstock.__all__) == [
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
    for name in penstock.__all__:
        assert hasattr(penstock, name)
    assert sorted(penstock.broker.__all__) == [
        "Consumer",
        "EARLIEST",
        "LATEST",
        "Producer",
        "Record",
        "Start",
        "Topics",
        "TransactionalProducer",
        "fold",
        "java_partition",
        "murmur2",
        "partition_by",
        "read",
    ]
    for name in penstock.broker.__all__:
        assert hasattr(penstock.broker, name)


def test_files_stay_short() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for folder in ("src", "tests", "examples", "bench", "scripts")
        for path in (ROOT / folder).rglob("*.py")
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > 500
    }
    assert not long, f"split these by noun: {long}"


def test_importing_the_package_brings_neither_spark_nor_kafka() -> None:
    code = "import sys, penstock, penstock.cli.main; print({'pyspark', 'confluent_kafka', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
