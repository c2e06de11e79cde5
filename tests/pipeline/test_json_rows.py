"""Whatever a text is, its row is the one that Spark's own parser makes; plain texts do not come to that parser."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from penstock.connectors.expressions import Expressions
from penstock.connectors.json_rows import with_json
from penstock.connectors.plain_json import PlainJson, can_be_plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

KINDS = ("STRING", "INT", "BIGINT", "DOUBLE", "BOOLEAN", "TIMESTAMP", "DATE", "STRUCT<b: BIGINT, c: STRING>")
NUMBERS = (
    "0 -0 1 -1 2147483647 2147483648 -2147483649 9223372036854775807 9223372036854775808 -9223372036854775809 1.0 1.5 "
    "1e3 1e400 -1e-400 0.1 12345678901234567890.123456789 NaN Infinity -INF 01 +1 .5 1. 0x1 true false null nul True"
)
TEXTS = (
    "",
    " ",
    "text",
    "1",
    "true",
    "null",
    "NaN",
    "größer ✓ 𝄞",
    r"\u0000",
    r"\ud800",
    r"\ud834\udd1e",
    r"\n\"\/",
    r"\x",
    "tab\tinside",
    "now",
    "epoch",
    "today",
    "2020",
    "2020-02",
    "2020-02-29",
    "2020-02-30",
    " 2020-02-29 ",
    "2020-02-29T",
    "2020-02-29T12",
    "2020-02-29T12:34",
    "2020-02-29 12:34:56",
    "2020-02-29T12:34:56Z",
    "2020-02-29T12:34:56.1+02:00",
    "2020-02-29T12:34:56.123456789-05:30",
    "2020-02-29T12:34:56 Europe/Berlin",
    "2020-02-29T12:34:56 Nowhere/Else",
    "2020-02-29T24:00:00Z",
    *(
        f"2020-02-29T12:34:56.{end}"
        for end in ("789Z", "1+8Z", "78+Z", "789z", "7-8Z", "+08Z", "78ZZ", "7891", " 8 Z", "٣٤5Z")
    ),
    *(
        f"{begin}.789Z"
        for begin in ("2020-02-30T12:34:56", "2020-02-29T25:34:56", "2020-02-29 12:34:56", "  2020-02-29T12:34")
    ),
    *(
        f"{begin}.789Z"
        for begin in ("2020-02-29 Europe/B", "2020-02-29T12:34+01", "00002020-02-29T12:3", "          T12:34:56")
    ),
    "T12:34:56",
    "12:34:56",
    "1582-10-10",
    "0001-01-01",
    "0000-00-00",
    "-0001-01-01",
    "+12020-01-01",
    "294248-01-01T00:00:00Z",
    "1700000000",
    "29/02/2020",
)
OTHERS = (
    "[]",
    "[1]",
    '["2020-01-01"]',
    "{}",
    '{"b":1,"c":"x"}',
    '{"b":"1"}',
    '{"b":1.5,"c":null}',
    '{"c":{}}',
    "''",
    "'x'",
)
WHOLE = (
    "",
    " ",
    "{}",
    " \n{ } ",
    "[]",
    '[{"a":1}]',
    "null",
    "1",
    '"a"',
    "{",
    '{"a"',
    '{"a":',
    '{"a":1',
    '{"a":1}}',
    '{"a":1} {"a":2}',
    '{"a":1} x',
    '{"a":1,}',
    '{"a":1,,"b":2}',
    "{a:1}",
    "{'a':1}",
    '{"A":1}',
    '{"\\u0061":1}',
    '{"a":1,"a":2}',
    '{"a":1,"a":"x"}',
    '{"a":"x","a":1}',
    '{"a":1,"a":null}',
    '{"a":1 /* one */}',
    '{"a":1} // one',
    '{"other":01,"a":1}',
    '{"other":"x","a":1,"more":{"deep":[1,{"x":null}]}}',
    '{"other":' + "9" * 1200 + ',"a":1}',
    '{"other":' + "[" * 1100 + "]" * 1100 + ',"a":1}',
    '{"a":1,"other":[1,2}',
    '{"a":1,"other":"never ends}',
    "\ufeff" + '{"a":1}',
    '{"a":1}\0',
    '\0{"a":1}',
    '{"":1,"a":1}',
)


def texts() -> list[bytes]:
    """All values for the field a, all texts as they are, and some bytes that are no text."""
    values = [*NUMBERS.split(), *(f'"{one}"' for one in TEXTS), *OTHERS]
    made = [f'{{"a":{one}}}' for one in values] + list(WHOLE)
    return [one.encode() for one in made] + [
        b'{"a":"\xff"}',
        b"\xff\xfe",
        '{"a":1}'.encode("utf-16"),
        '{"a":1}'.encode("utf-32-be"),
    ]


def of_spark(rows: DataFrame, columns: str) -> list[Row]:
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "bad"}
    parsed = F.from_json(F.col("value").cast("string"), f"bad STRING, {columns}", options)
    return shown(rows.withColumn("row", parsed))


def of_ours(rows: DataFrame, columns: str) -> list[Row]:
    return shown(with_json(rows, "row", F.col("value").cast("string"), columns, "bad"))


def shown(parsed: DataFrame) -> list[Row]:
    """Each text with all of its row; Python has no year 12020."""
    assert parsed.columns == ["value", "row"]
    exact = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
    return parsed.select("value", F.to_json("row", exact)).orderBy("value").collect()


def given(spark: SparkSession, every: list[bytes]) -> DataFrame:
    return spark.createDataFrame([(one,) for one in [*every, None]], "value BINARY")


@pytest.mark.parametrize(("kind", "zone"), [*((one, "UTC") for one in KINDS), ("TIMESTAMP", "America/New_York")])
def test_every_text_is_what_sparks_parser_makes_of_it(spark: SparkSession, kind: str, zone: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        rows = given(spark, texts())
        assert of_ours(rows, f"a {kind}") == of_spark(rows, f"a {kind}")
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


def test_rows_of_many_columns_with_random_faults(spark: SparkSession) -> None:
    columns = ", ".join(f"`{number} {kind[:3]}` {kind}" for number, kind in enumerate(KINDS))
    names = [one.name for one in StructType.fromDDL(columns)]  # type: ignore[attr-defined]
    usual = ['"x"', "1", "1", "1.5", "true", '"2020-02-29T12:34:56Z"', '"2020-02-29"', '{"b":1,"c":"x"}']
    odd = [*NUMBERS.split(), *(f'"{one}"' for one in TEXTS), *OTHERS]
    dice = random.Random(7)
    made = []
    for _ in range(2_000):
        values = [dice.choice(odd) if dice.random() < 0.1 else one for one in usual]
        fields = [f'"{name}":{value}' for name, value in zip(names, values, strict=True) if dice.random() < 0.9]
        dice.shuffle(fields)
        text = f"{{{','.join(fields)}}}"
        made.append((text[: dice.randrange(len(text))] if dice.random() < 0.05 else text).encode())
    rows = given(spark, made)
    assert of_ours(rows, columns) == of_spark(rows, columns)


@pytest.mark.parametrize(
    ("kind", "plain", "odd"),
    [
        ("STRING", '"x"', "1"),
        ("INT", "2147483647", "2147483648"),
        ("BIGINT", "9223372036854775807", "1.0"),
        ("DOUBLE", "1", '"1"'),
        ("BOOLEAN", "true", '"true"'),
        ("TIMESTAMP", '"2020-02-29T12:34:56.5+02:00"', "1"),
        ("DATE", '"2020-02-29"', '"2020-02-30"'),
        ("STRUCT<b: BIGINT, c: STRING>", '{"b":1}', '{"b":"1"}'),
    ],
)
def test_a_plain_text_does_not_come_to_sparks_parser(spark: SparkSession, kind: str, plain: str, odd: str) -> None:
    expressions = Expressions(spark)
    columns = StructType.fromDDL(f"a {kind}, n BIGINT")
    assert isinstance(columns, StructType)
    read = PlainJson(expressions, utc=True).row(expressions.of(F.col("value")), columns, "mark")
    asked = [f'{{"n":7,"a":{one}}}' for one in (plain, "null", odd)] + ['{"n":7}', "{}", "[]"]
    rows = spark.createDataFrame([(one,) for one in asked], "value STRING").coalesce(1)
    marks = [one[0] for one in rows.select(expressions.column(read).alias("row")).select("row.mark").collect()]
    assert [one is None for one in marks] == [True, True, False, True, True, False]


def test_what_has_no_plain_form(spark: SparkSession) -> None:
    for columns in ("a DECIMAL(10, 2)", "a ARRAY<INT>", "a STRUCT<b: MAP<STRING, INT>>", "a BINARY", "a VARIANT"):
        assert not can_be_plain(StructType.fromDDL(columns)), columns  # type: ignore[arg-type]
    rows = given(spark, [b'{"a":[1,2]}', b'{"a":["x"]}', b"{"])
    assert of_ours(rows, "a ARRAY<INT>") == of_spark(rows, "a ARRAY<INT>")


def test_the_code_of_the_most_columns_is_short_enough_for_javas_compiler(spark: SparkSession) -> None:
    columns = ", ".join(f"`some rather long name {number}` {KINDS[number % 7]}" for number in range(40))
    assert can_be_plain(StructType.fromDDL(columns))  # type: ignore[arg-type]
    assert not can_be_plain(StructType.fromDDL(f"{columns}, more STRING"))  # type: ignore[arg-type]
    rows = with_json(given(spark, [b"{}"]), "row", F.col("value").cast("string"), columns, "bad").select("row.*")
    codegen = spark._jvm.org.apache.spark.sql.execution.debug  # type: ignore[union-attr]
    told = getattr(codegen, "package$").__getattr__("MODULE$").codegenString(rows._jdf.queryExecution().executedPlan())
    sizes = [int(one.split(";")[0]) for one in told.split("maxMethodCodeSize:")[1:]]
    assert sizes
    assert max(sizes) < 8_000
