"""The queries as Flink SQL, on a cluster of one JVM with two slots that lives as long as this process.

Heap, managed memory and network buffers are 4 GiB together: 3,328 + 512 + 256 MiB. PENSTOCK_PEER_JARS names the folder
of the jars in jars.txt; they are on the JVM's own class path, so that no job loads their classes anew. JVM_ARGS, which
PyFlink hands to the JVM, may set another heap.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path[0] = str(Path(__file__).parents[3])

from pyflink.common import Configuration
from pyflink.java_gateway import get_gateway
from pyflink.table import EnvironmentSettings, TableEnvironment
from pyflink.version import __version__

from bench.peers.lines import serve

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyflink.common import JobClient

TABLES = {
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` {time}, extra STRING",
    "person": "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, "
    "`dateTime` {time}, extra STRING",
    "auction": "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, `dateTime` {time}, "
    "expires {time}, seller BIGINT, category BIGINT, extra STRING",
}
TIME = {"json": "TIMESTAMP_LTZ(3)", "avro": "TIMESTAMP(3)"}  # text with a Z; milliseconds, which Flink calls local


@dataclass(frozen=True)
class Query:
    """What a row of the answer is, and how it comes about."""

    columns: str
    sql: str
    key: str = ""


QUERIES = {
    "q0": Query(
        "auction BIGINT, bidder BIGINT, price BIGINT, `dateTime` {time}, extra STRING",
        "SELECT auction, bidder, price, `dateTime`, extra FROM bid",
    ),
    "q1": Query(
        "auction BIGINT, bidder BIGINT, price DOUBLE, `dateTime` {time}, extra STRING",
        "SELECT auction, bidder, 0.908E0 * price, `dateTime`, extra FROM bid",
    ),
    "q2": Query("auction BIGINT, price BIGINT", "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0"),
    "q5": Query(
        "auction BIGINT, num BIGINT, starttime TIMESTAMP(3), endtime TIMESTAMP(3)",
        """
        WITH counts AS (
          SELECT auction, COUNT(*) AS num, window_start, window_end
          FROM HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND)
          GROUP BY auction, window_start, window_end),
        most AS (SELECT MAX(num) AS num, window_start, window_end FROM counts GROUP BY window_start, window_end)
        SELECT auction, counts.num, counts.window_start, counts.window_end FROM counts JOIN most
        ON counts.window_start = most.window_start AND counts.window_end = most.window_end AND counts.num = most.num""",
    ),
    "q7": Query(
        "auction BIGINT, price BIGINT, bidder BIGINT, `dateTime` {time}, extra STRING",
        """
        WITH bids AS (SELECT * FROM TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND)),
        most AS (SELECT MAX(price) AS price, window_start, window_end FROM bids GROUP BY window_start, window_end)
        SELECT auction, bids.price, bidder, `dateTime`, extra FROM bids JOIN most
        ON bids.window_start = most.window_start AND bids.window_end = most.window_end AND bids.price = most.price""",
    ),
    "q8": Query(
        "id BIGINT, name STRING, starttime TIMESTAMP(3)",
        """
        WITH people AS (
          SELECT id, name, window_start, window_end
          FROM TUMBLE(TABLE person, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND)
          GROUP BY id, name, window_start, window_end),
        sellers AS (
          SELECT seller, window_start, window_end
          FROM TUMBLE(TABLE auction, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND)
          GROUP BY seller, window_start, window_end)
        SELECT id, name, people.window_start FROM people JOIN sellers
        ON id = seller AND people.window_start = sellers.window_start AND people.window_end = sellers.window_end""",
    ),
    "q11": Query(
        "bidder BIGINT, bid_count BIGINT, starttime TIMESTAMP(3), endtime TIMESTAMP(3)",
        """
        SELECT bidder, COUNT(*), window_start, window_end
        FROM SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND)
        GROUP BY bidder, window_start, window_end""",
    ),
    "q13": Query(
        "auction BIGINT, bidder BIGINT, price BIGINT, `dateTime` {time}, `value` STRING",
        """
        SELECT auction, bidder, price, `dateTime`, `value`
        FROM (SELECT *, PROCTIME() AS seen FROM bid) AS bids JOIN side FOR SYSTEM_TIME AS OF bids.seen
        ON MOD(auction, 10000) = side.key""",
    ),
    "q14": Query(
        "auction BIGINT, bidder BIGINT, price DOUBLE, bidTimeType STRING, `dateTime` {time}, extra STRING, "
        "c_counts INT",
        """
        SELECT auction, bidder, 0.908E0 * price,
          CASE WHEN HOUR(`dateTime`) BETWEEN 8 AND 18 THEN 'dayTime'
               WHEN HOUR(`dateTime`) <= 6 OR HOUR(`dateTime`) >= 20 THEN 'nightTime' ELSE 'otherTime' END,
          `dateTime`, extra, CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', ''))
        FROM bid WHERE 0.908E0 * price > 1000000 AND 0.908E0 * price < 50000000""",
    ),
    "q17": Query(
        "auction BIGINT, `day` STRING, total_bids BIGINT, rank1_bids BIGINT, rank2_bids BIGINT, rank3_bids BIGINT, "
        "min_price BIGINT, max_price BIGINT, avg_price DOUBLE, sum_price BIGINT",
        """
        SELECT auction, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd'), COUNT(*),
          COUNT(*) FILTER (WHERE price < 10000),
          COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000),
          COUNT(*) FILTER (WHERE price >= 1000000),
          MIN(price), MAX(price), AVG(CAST(price AS DOUBLE)), SUM(price)
        FROM bid GROUP BY auction, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')""",
        "auction, `day`",
    ),
    "q18": Query(
        "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` {time}, extra STRING",
        """
        SELECT auction, bidder, price, channel, url, `dateTime`, extra FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY `dateTime` DESC) AS place FROM bid)
        WHERE place <= 1""",
        "bidder, auction",
    ),
    "q22": Query(
        "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, dir1 STRING, dir2 STRING, dir3 STRING",
        """
        SELECT auction, bidder, price, channel,
          SPLIT_INDEX(url, '/', 3), SPLIT_INDEX(url, '/', 4), SPLIT_INDEX(url, '/', 5) FROM bid""",
    ),
    "keys": Query(
        "bidder BIGINT, bids BIGINT, highest BIGINT",
        "SELECT bidder, COUNT(*), MAX(price) FROM bid WHERE `dateTime` < {july} GROUP BY bidder",
        "bidder",
    ),
    "hops": Query(
        "bids BIGINT, highest BIGINT, starttime TIMESTAMP(3), endtime TIMESTAMP(3)",
        """
        SELECT COUNT(*), MAX(price), window_start, window_end
        FROM HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '{every}' SECOND(2, 3), INTERVAL '10' SECOND)
        GROUP BY window_start, window_end""",
    ),
}
JULY = {"json": "TO_TIMESTAMP_LTZ(1782864000000, 3)", "avro": "TIMESTAMP '2026-07-01 00:00:00'"}

LIVE_QUERIES = {
    "stateless": Query("bidder BIGINT, price BIGINT", "SELECT bidder, price FROM bid WHERE price > 0"),
    "windowed": Query(
        "bidder BIGINT, ten_seconds BIGINT, price BIGINT",
        """
        SELECT bidder, ten_seconds, MAX(price)
        FROM (SELECT bidder, price, EXTRACT(EPOCH FROM `dateTime`) / 10 AS ten_seconds FROM bid)
        GROUP BY bidder, ten_seconds""",
        key="bidder, ten_seconds",
    ),
}

CLUSTER = {
    "rest.port": "0",
    "taskmanager.memory.managed.size": "512m",
    "taskmanager.memory.network.min": "256m",
    "taskmanager.memory.network.max": "256m",
}
# Mini-batches, aggregation in two phases and reuse of objects are the settings of Flink's own Nexmark.
JOB = {
    "parallelism.default": "2",
    "pipeline.object-reuse": "true",
    "restart-strategy.type": "none",  # else a job that can't run tries for ever
    "execution.checkpointing.interval": "10 s",
    "execution.checkpointing.mode": "AT_LEAST_ONCE",
    "table.local-time-zone": "UTC",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
}
LIVE = {
    "table.exec.mini-batch.enabled": "false",
    "execution.buffer-timeout.interval": "1 ms",
    "table.exec.state.ttl": "1 min",
}
WHOLE = {"scan.startup.mode": "earliest-offset", "scan.bounded.mode": "latest-offset"}
FROM_NOW = {"scan.startup.mode": "latest-offset"}
# The older connector is the one that can be looked up: it holds the file in memory, as Nexmark's own q13 has it.
SIDE = {"connector.type": "filesystem", "format.type": "csv"}
WRITING = {"linger.ms": "20", "batch.size": "524288", "compression.type": "lz4"}
ISO = {"json.timestamp-format.standard": "ISO-8601"}


class Cluster:
    """A cluster in this process' JVM, and jobs on it."""

    def __init__(self, bootstrap: str) -> None:
        runtime = get_gateway().jvm.org.apache.flink.runtime
        builder = runtime.minicluster.MiniClusterConfiguration.Builder()
        builder.setConfiguration(_configuration(CLUSTER)._j_configuration).setNumSlotsPerTaskManager(2)
        self._cluster = runtime.minicluster.MiniCluster(builder.build())
        self._cluster.start()
        at = self._cluster.getRestAddress().get()
        self._at = {"execution.target": "remote", "rest.address": at.getHost(), "rest.port": str(at.getPort())}
        self._bootstrap = bootstrap

    def run(self, request: dict[str, Any]) -> None:
        """Answer a query: done when all rows are acknowledged and the last checkpoint is there."""
        try:
            job = self._started(request, QUERIES[request["query"]], JOB)
            # Asked of the cluster itself: a client would ask by REST again and again, up to two seconds apart.
            done = self._cluster.requestJobResult(job.get_job_id()._j_job_id).get()
            if not done.isSuccess():
                raise RuntimeError(done.getSerializedThrowable().get().getFullStringifiedStackTrace())
        except Exception as error:
            print(error, file=sys.stderr)
            cause = str(error).rpartition("Caused by: ")[2].partition("\n\tat")[0]
            raise RuntimeError(" ".join(cause.split())) from error

    def begin(self, request: dict[str, Any]) -> Callable[[], None]:
        """Start a query that goes on; no row waits for others."""
        job = self._started(request, LIVE_QUERIES[request["live"]], JOB | LIVE)
        return lambda: job.cancel().result()

    def close(self) -> None:
        """Stop."""
        self._cluster.close()

    def _started(self, request: dict[str, Any], query: Query, options: dict[str, str]) -> JobClient:
        time = TIME[request["format"]]
        options = options | self._at | {"execution.checkpointing.dir": Path(request["folder"]).as_uri()}
        settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(_configuration(options))
        tables = TableEnvironment.create(settings.build())
        for name, topic in request["sources"].items():
            columns = f"{TABLES[name]}, WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND"
            _create(tables, name, columns.format(time=time), self._source(topic, request))
        if request.get("query") == "q13":
            _create(tables, "side", "key BIGINT, `value` STRING", SIDE | {"connector.path": request["side"]})
        key = f", PRIMARY KEY ({query.key}) NOT ENFORCED" if query.key else ""
        _create(tables, "answer", query.columns.format(time=time) + key, self._sink(request, query))
        every = f"{request.get('every_ms', 0) / 1000:.3f}"
        sql = query.sql.format(july=JULY[request["format"]], every=every)
        return tables.execute_sql(f"INSERT INTO answer {sql}").get_job_client()

    def _source(self, topic: str, request: dict[str, Any]) -> dict[str, str]:
        kafka = {"connector": "kafka", "topic": topic, "properties.bootstrap.servers": self._bootstrap}
        kafka |= FROM_NOW if "live" in request else WHOLE
        if request["format"] == "json":
            return {**kafka, "format": "json", **ISO}
        return {**kafka, "format": "avro-confluent", "avro-confluent.url": request["registry"]}

    def _sink(self, request: dict[str, Any], query: Query) -> dict[str, str]:
        options = {"topic": request["sink"], "properties.bootstrap.servers": self._bootstrap}
        writing = WRITING | ({"linger.ms": "0"} if "live" in request else {})
        options |= {f"properties.{name}": value for name, value in writing.items()}
        options |= {"sink.delivery-guarantee": "at-least-once"}
        if query.key:
            both = {"key.format": "json", "value.format": "json", **{f"value.{name}": ISO[name] for name in ISO}}
            return {"connector": "upsert-kafka", **options, **both}
        return {"connector": "kafka", **options, "format": "json", **ISO}


def _configuration(options: dict[str, str]) -> Configuration:
    made = Configuration()
    for name, value in options.items():
        made.set_string(name, value)
    return made


def _create(tables: TableEnvironment, name: str, columns: str, options: dict[str, str]) -> None:
    shown = ", ".join(f"'{option}' = '{value}'" for option, value in options.items())
    tables.execute_sql(f"CREATE TEMPORARY TABLE {name} ({columns}) WITH ({shown})")


def _start(bootstrap: str) -> Cluster:
    os.environ.setdefault("ROOT_LOG_LEVEL", "WARN")
    os.environ.setdefault("JVM_ARGS", "-Xmx3328m")
    # Of all that PyFlink reads only this one adds to the class path.
    os.environ["HADOOP_CLASSPATH"] = f"{os.environ['PENSTOCK_PEER_JARS']}/*"
    out = os.dup(1)
    os.dup2(2, 1)  # the JVM keeps it: what it prints is not an answer
    cluster = Cluster(bootstrap)
    os.dup2(out, 1)
    return cluster


if __name__ == "__main__":
    cluster = _start(sys.argv[1])
    serve(__version__, list(QUERIES), cluster.run, cluster.begin)
    cluster.close()
