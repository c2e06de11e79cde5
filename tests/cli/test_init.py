"""`penstock init`: what it writes is a pipeline that compiles, with a test that passes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from penstock.cli.main import penstock
from penstock.errors import SetupError
from penstock.pipeline.load import load_pipeline
from penstock.testing import Trial

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_the_project_works(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    done = CliRunner().invoke(penstock, ["init", str(folder), "--json"])
    assert sorted(json.loads(done.output)["files"]) == sorted(one.name for one in folder.iterdir())
    shop = load_pipeline(folder / "orders.py")
    text = (folder / "test_orders.py").read_text(encoding="utf-8").replace("from orders import shop\n", "")
    found: dict[str, Any] = {"shop": shop}
    exec(compile(text, "test_orders.py", "exec"), found)
    found["Trial"] = lambda pipeline: Trial(pipeline, spark)
    found["test_what_a_customer_spends_in_ten_seconds"]()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text("mine", encoding="utf-8")
    done = CliRunner().invoke(penstock, ["init", str(tmp_path)])
    assert isinstance(done.exception, SetupError)
    assert [one.name for one in tmp_path.iterdir()] == ["orders.py"]
    assert (tmp_path / "orders.py").read_text(encoding="utf-8") == "mine"


def test_the_next_steps_are_shown(tmp_path: Path) -> None:
    done = CliRunner().invoke(penstock, ["init", str(tmp_path / "a" / "b")])
    assert done.exit_code == 0
    assert "penstock run orders.py" in done.output
