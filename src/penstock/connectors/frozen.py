"""Columns that nobody declared: learnt once from the rows that are there, then frozen in a file of the project."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame

    from penstock.connectors.base import Context

__all__ = ["frozen_schema", "json_columns", "schema_file"]


def schema_file(context: Context, target: str, ending: str = ".ddl") -> Path:
    """`schemas/<target>.ddl` in the project: keep it in version control, edit it to change a type."""
    return context.settings.project / "schemas" / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', target)}{ending}"


def frozen_schema(context: Context, target: str, learn: Callable[[], str]) -> str:
    """The columns of a source as DDL; `learn` finds them the first time, empty if there are no rows."""
    path = schema_file(context, target)
    if path.exists():
        return path.read_text(encoding="utf-8").strip()
    learnt = learn()
    if not learnt:
        raise DeclarationError(
            f"{target} has no rows to learn its columns from.",
            code="schema-unknown",
            remedy='Send some rows first, or declare the columns: ps.Json("order_id LONG, …").',
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(learnt + "\n", encoding="utf-8")
    return learnt


def json_columns(rows: DataFrame) -> str:
    """Columns that fit every row whose `value` is a JSON object, as DDL."""
    session = rows.sparkSession
    objects = rows.filter("ltrim(value) LIKE '{%'")._jdf
    texts = getattr(objects, "as")(session._jvm.org.apache.spark.sql.Encoders.STRING())  # type: ignore[union-attr]
    reader = session._jsparkSession.read().option("inferTimestamp", "true").option("mode", "DROPMALFORMED")
    return str(reader.json(texts).schema().toDDL())
