"""The declarative half of the compiler: each mistake is found without Spark, at the user's line, with what to write."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from penstock.errors import DeclarationError
from penstock.pipeline.compile import declared
from penstock.pipeline.load import load_pipeline

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """import penstock as ps
shop = ps.Pipeline("shop")
orders = shop.source("orders", ps.Kafka("orders", format=ps.Json("id LONG, amount DOUBLE, at TIMESTAMP")))
"""
GOOD = """@shop.flow
def valid(orders):
    return orders
shop.sink(valid, ps.Kafka("valid"))
"""


def compiled(tmp_path: Path, text: str) -> str:
    file = tmp_path / "shop.py"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DeclarationError) as caught:
        declared(load_pipeline(file))
    return str(caught.value).replace(str(tmp_path), "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + GOOD.replace("def valid(orders)", "def valid(ordrs)"), "/shop.py:4: Flow 'valid' asks for 'ordrs'"),
        (HEAD + GOOD.replace("def valid(orders)", "def valid(ordrs)"), "Did you mean 'orders'?"),
        (HEAD, "/shop.py:2: The pipeline has no sink."),
        (HEAD + "shop.sink('valdi', ps.Kafka('x'))", "/shop.py:4: This sink is for 'valdi'"),
        (
            HEAD + "@shop.flow\ndef a(b): return b\n@shop.flow\ndef b(a): return a\nshop.sink(a, ps.Kafka('x'))",
            "These flows feed each other:",
        ),
        (
            HEAD + GOOD + "shop.sink(orders, ps.Kafka('valid'))",
            "/shop.py:8: kafka:valid is written already at /shop.py:7",
        ),
        (HEAD + GOOD + "shop.source('orders', ps.Kafka('x'))", "'orders' is declared already at /shop.py:3"),
        (HEAD + GOOD + "shop.source('more', ps.Kafka('x', pattern=True, start=5))", "A pattern has no offsets"),
        (HEAD + GOOD + "shop.source('more', ps.Kafka('x', tpic='y'))", "/shop.py:8: TypeError"),
        (HEAD + GOOD + "shop.source('more', ps.Kafka('x', strat='latest'))", "Did you mean 'start'?"),
        (HEAD + GOOD + "shop.source('more', ps.Kafka('a b', format=ps.Raw()))", "'a b' is not a topic's name"),
        (HEAD + GOOD + "shop.source('more', ps.Kafka('x', ps.Raw(), start='now'))", "start='now' means nothing"),
        (HEAD + GOOD + "shop.source('more', ps.Console())", "/shop.py:8: Console(rows=20) can't be read."),
        (HEAD + GOOD + "shop.table('more', ps.Generated())", "The generated connector can't be a table."),
        (HEAD + GOOD + "shop.sink(orders, ps.Kafka('orders'))", "kafka:orders is what source 'orders' reads."),
        (HEAD + GOOD + "shop.source('m', ps.Kafka('shop.*', ps.Raw(), pattern=True))", "reads kafka:shop-dead-letters"),
        (HEAD + GOOD + "shop.source('m', ps.Kafka(('a', 'valid'), ps.Raw()))", "kafka:valid is what source 'm' reads"),
        (HEAD + GOOD + "shop.table('m', ps.Kafka('x', ps.Raw(), pattern=True))", "A table is of topics that are named"),
        (HEAD + GOOD + "shop.sink(orders, ps.Files('x'), latency='realtime')", "can't be written in real time"),
        (HEAD + GOOD + "shop.sink(orders, ps.Kafka('x'), latency='soon')", "latency='soon' is not known"),
        (HEAD + GOOD + "shop.sink('valid$late', ps.Kafka('x'))", "There is no 'valid$late': late rows are dropped."),
        (HEAD + GOOD + "@shop.each('id LONG')\ndef one(orders, valid): return orders", "takes single rows of one"),
        (HEAD + GOOD + "shop.table('t', ps.Files('x'))\n@shop.flow\ndef f(t): return t", "has tables only"),
        (HEAD + GOOD + "shop.source('more', ps.Files('x', kind='xml'))", "kind='xml' is not a kind of file"),
        (
            HEAD + GOOD + "shop.source('more', ps.Generated(), time=ps.EventTime('created_at', delay='soon'))",
            "delay='soon' is not a duration. Write it like '10 seconds'",
        ),
        (
            HEAD + GOOD + "shop.source('m', ps.Generated(), time=ps.EventTime('created_at', late='update'))",
            "late='update' and grace belong together.",
        ),
        (
            HEAD + GOOD + "shop.source('m', ps.Generated(), time=ps.EventTime('created_at', idle='a while'))",
            "idle='a while' is not a duration.",
        ),
        (
            HEAD + GOOD.replace('ps.Kafka("valid"))', 'ps.Memory("valid"), guarantee="exactly-once")'),
            "The memory sink gives at-least-once, not exactly-once",
        ),
        (
            HEAD + GOOD.replace('"valid"))', '"valid"), guarantee="exactly-once", latency="realtime")'),
            "The kafka sink in real time gives at-least-once",
        ),
        (
            HEAD + GOOD.replace('ps.Kafka("valid"))', 'ps.Console(), guarantee="at-most-once")'),
            "The console sink gives at-least-once, not at-most-once",
        ),
        (HEAD + GOOD.replace('"valid"))', '"valid"), guarantee="always")'), "'always' is not a guarantee"),
        (HEAD + GOOD.replace("@shop.flow", "@shop.flow(emit='sometimes')"), "emit='sometimes' is not known"),
        (HEAD + GOOD.replace("@shop.flow", "@shop.flow(expect={'a': ('b', 'c')})"), "does not know 'c'"),
        (HEAD + "def broken(:", "/shop.py:4: SyntaxError"),
        (HEAD + "nonsense", "/shop.py:4: NameError: name 'nonsense' is not defined"),
        ("x = 1", "declares 0 pipelines"),
    ],
)
def test_a_mistake_is_told_at_its_line(tmp_path: Path, text: str, said: str) -> None:
    assert said in compiled(tmp_path, text)


def test_a_file_must_not_stand_for_a_module_of_python(tmp_path: Path) -> None:
    file = tmp_path / "numbers.py"
    file.write_text(HEAD + GOOD, encoding="utf-8")
    with pytest.raises(DeclarationError, match=r"numbers\.py has the name of a module.*numbers_pipeline\.py"):
        load_pipeline(file)


def test_the_quick_check_starts_no_jvm(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(HEAD + GOOD, encoding="utf-8")
    words = [sys.executable, "-m", "penstock", "check", "--quick", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={"PATH": ""}, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "shop is well: 1 source, 1 flow, 1 sink.\n"
