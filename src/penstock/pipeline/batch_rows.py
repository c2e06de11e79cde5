"""The rows of one batch for every flow that has a sink: computed once, and kept on disk where sinks need them again."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

from penstock.pipeline.build import Build, stage_of
from penstock.pipeline.spark_plan import reads_once

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

    from penstock.connectors.base import Context
    from penstock.connectors.writing import Batch
    from penstock.pipeline.plan import Graph, Query

__all__ = ["BatchRows", "kept_until"]


class BatchRows:
    """Makes the flows after a query's root, and remembers by batch what their stages counted."""

    def __init__(self, graph: Graph, query: Query, counted: set[str]) -> None:
        self.observed: dict[int, dict[str, dict[str, Any]]] = {}
        self._graph = graph
        self._query = query
        self._counted = counted
        self._flows = list(dict.fromkeys(sink.flow for sink in query.sinks))
        self._names = graph.needed(*self._flows) - graph.needed(query.root)  # what is made of the root's rows
        self._reader: SparkSession | None = None
        self._reads_once: bool | None = None

    def made(self, frame: DataFrame, batch: Batch, context: Context, kept: ExitStack) -> dict[str, DataFrame]:
        """The rows of each flow, for one writer that takes them in one step."""
        after = [one for one in self._graph.flows if one.name in self._names]
        if len(self._query.sinks) > 1 or any(one.expectations or one.returns for one in after):
            return self._after(kept_until(frame, kept), batch.number, context, kept)
        made = self._after(frame, batch.number, context, kept)
        if self._reads_once is None:
            self._reads_once = not after or reads_once(made[self._flows[0]])
        if not self._reads_once:
            kept_until(frame, kept)
        return made

    def staged(self, frame: DataFrame, batch: Batch, context: Context, kept: ExitStack) -> dict[str, DataFrame]:
        """Rows on disk, so that all sinks get the very same ones, also when some of them get theirs after a crash."""
        done = batch.folder / "complete.json"
        token = {"batch": batch.number, "digest": batch.digest}
        known = json.loads(done.read_text(encoding="utf-8")) if done.exists() else {}
        if known.get("token") == token:
            frame.write.format("noop").mode("overwrite").save()
            self.observed[batch.number] = known["observed"]
        else:
            shutil.rmtree(batch.folder, ignore_errors=True)
            made = self._after(kept_until(frame, kept), batch.number, context, kept)
            for flow in self._flows:
                made[flow].write.option("compression", "none").parquet(str(batch.folder / flow))
            fresh = batch.folder / "complete.tmp"
            columns = {flow: made[flow].schema.json() for flow in self._flows}
            known = {"token": token, "observed": self.observed.get(batch.number, {}), "columns": columns}
            fresh.write_text(json.dumps(known), encoding="utf-8")
            fresh.replace(done)
        batch.reached("batch kept")
        reader = self._whole_files(context)
        return {flow: _read(reader, batch.folder / flow, known["columns"][flow]) for flow in self._flows}

    def _whole_files(self, context: Context) -> SparkSession:
        """A session that reads each file as one part: in a file the rows of a key are in their order."""
        if self._reader is None:
            self._reader = context.spark.newSession()
            self._reader.conf.set("spark.sql.files.openCostInBytes", str(1 << 40))
            self._reader.conf.set("spark.sql.files.maxPartitionBytes", str(1 << 41))
        return self._reader

    def _after(self, batch: DataFrame, number: int, context: Context, kept: ExitStack) -> dict[str, DataFrame]:
        self.observed[number] = {}

        def observe(rows: DataFrame, name: str, counts: list[Column]) -> DataFrame:
            # Spark tells what it observed of a stream, or of a batch that is collected, but not of one that is written.
            if stage_of(name) not in self._counted:
                return rows
            rows = kept_until(rows, kept)
            self.observed[number][name] = rows.agg(*counts).collect()[0].asDict(recursive=True)
            return rows

        graph = self._graph
        made = {self._query.root: batch}
        for table in graph.tables:
            if table.name in graph.needed(*self._names):
                made[table.name] = table.connector.table(context)
        Build(graph, context).add_flows(made, self._names, observe)
        return made


def _read(reader: SparkSession, folder: Path, columns: str) -> DataFrame:
    """Rows that we wrote; with their columns given Spark need not look into the files for them."""
    from pyspark.sql.types import StructType

    return reader.read.schema(StructType.fromJson(json.loads(columns))).parquet(str(folder))


def kept_until(rows: DataFrame, until: ExitStack) -> DataFrame:
    """The rows, computed once as long as the batch is written."""
    rows.persist()
    until.callback(rows.unpersist)
    return rows
