"""What the docs show is what works: every pipeline in them compiles, the example of the test kit runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.connectors.base import Context
from penstock.pipeline.compile import compile_graph, declared
from penstock.pipeline.load import load_pipeline
from penstock.testing import Trial

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.conftest import Project

ROOT = Path(__file__).parents[1]
# tests/e2e/test_tutorial.py runs the tutorial.
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.stem != "tutorial")]
BLOCKS = [
    (f"{page.stem}-{number}", text)
    for page in PAGES
    for number, text in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
    if "ps.Pipeline(" in text
]


@pytest.mark.parametrize("text", [text for _, text in BLOCKS], ids=[name for name, _ in BLOCKS])
def test_a_pipeline_of_the_docs_compiles(spark: SparkSession, platform: Project, tmp_path: Path, text: str) -> None:
    file = tmp_path / "shown.py"
    file.write_text(text, encoding="utf-8")
    assert compile_graph(declared(load_pipeline(file)), Context(spark, platform.settings)).queries


def test_the_example_of_the_test_kit_runs(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = (text for name, text in BLOCKS if name.startswith("testing-"))
    found: dict[str, Any] = {}
    exec(compile(text, "testing.md", "exec"), found)
    monkeypatch.setitem(found, "Trial", lambda pipeline: Trial(pipeline, spark))
    found["test_metrics"]()
