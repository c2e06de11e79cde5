"""`penstock schemas` as a person uses it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.registry.conftest import AMOUNT, NOTE, order

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Project

PIPELINE = """
import penstock as ps

orders = ps.Pipeline("orders")
orders.source("given", ps.Kafka("{topic}", format=ps.Avro("{schema}")))
orders.sink("given", ps.Kafka("{topic}-out"))
"""


def test_register_show_list_diff_delete(platform: Project, subject: str, tmp_path: Path) -> None:
    first, second = tmp_path / "one.avsc", tmp_path / "two.avsc"
    first.write_text(order().text)
    second.write_text(order(AMOUNT).text)
    done = platform.run("schemas", "register", subject, str(first))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{subject} version 1 is schema id ")
    told = json.loads(platform.run("schemas", "register", subject, str(second), "--json").stdout)
    assert told["version"] == 2
    assert '"amount"' in platform.run("schemas", "show", subject).stdout
    assert '"amount"' not in platform.run("schemas", "show", subject, "--version", "1").stdout
    assert '"amount"' in platform.run("schemas", "show", str(told["id"]), "--id").stdout
    listed = json.loads(platform.run("schemas", "list", "--json").stdout)
    mine = next(one for one in listed if one["subject"] == subject)
    assert (mine["kind"], mine["version"], mine["mode"]) == ("AVRO", 2, "BACKWARD")
    assert '+      "name": "amount"' in platform.run("schemas", "diff", subject, "--version", "1").stdout
    assert "They are the same." in platform.run("schemas", "diff", subject, str(second)).stdout
    assert platform.run("schemas", "delete", subject, "--version", "1", text="n\n").returncode == 130
    assert platform.run("schemas", "delete", subject, "--yes").stdout.startswith("Deleted")
    gone = platform.run("schemas", "show", subject)
    assert gone.returncode == 2
    assert gone.stderr.strip().endswith(f"The registry has no {subject}. See `penstock schemas list`.")


def test_check_tells_what_breaks_whom(platform: Project, subject: str, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.avsc", tmp_path / "bad.avsc"
    good.write_text(order(NOTE).text)
    bad.write_text(order({"name": "note", "type": "string"}).text)
    assert platform.run("schemas", "register", subject, str(good)).returncode == 0
    assert platform.run("schemas", "check", subject, str(good)).returncode == 0
    refused = platform.run("schemas", "check", subject, str(bad))
    assert refused.returncode == 1
    assert (
        "note: a consumer with the new schema can't read rows of version 1: null can't be read as string"
        in refused.stdout
    )
    done = platform.run("schemas", "mode", subject, "none")
    assert done.stdout == f"{subject}: NONE\n"
    assert platform.run("schemas", "check", subject, str(bad)).returncode == 0
    unknown = platform.run("schemas", "mode", subject, "BACKWARDS")
    assert unknown.returncode == 2
    assert "is no compatibility" in unknown.stderr


def test_check_tells_which_pipelines_break(platform: Project, subject: str, tmp_path: Path) -> None:
    topic = subject.removesuffix("-value")
    (platform.folder / f"{topic}.avsc").write_text(order({"name": "amount", "type": "double"}).text)
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    (pipelines / "orders_pipeline.py").write_text(PIPELINE.format(topic=topic, schema=f"{topic}.avsc"))
    proposed = tmp_path / "new.avsc"
    proposed.write_text(order(NOTE).text)
    done = platform.run("schemas", "check", subject, str(proposed), "--pipelines", str(pipelines))
    assert done.returncode == 1, done.stderr
    assert "orders_pipeline.py:5: source 'given' of pipeline 'orders': amount: it is not written" in done.stdout
    proposed.write_text(order({"name": "amount", "type": "float"}, NOTE).text)
    fine = platform.run("schemas", "check", subject, str(proposed), "--pipelines", str(pipelines), "--json")
    assert json.loads(fine.stdout)["pipelines"] == []
    assert fine.returncode == 0


def test_mistakes_are_one_sentence(platform: Project, subject: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken.avsc"
    broken.write_text("{")
    done = platform.run("schemas", "register", subject, str(broken))
    assert done.returncode == 2
    assert "A schema is no JSON" in done.stderr
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("{}")
    assert "is no schema by its name" in platform.run("schemas", "register", subject, str(wrong)).stderr
    proto = tmp_path / "wrong.proto"
    proto.write_text('syntax = "proto3";\nmessage Order { int64 id = ; }\n')
    said = platform.run("schemas", "check", subject, str(proto)).stderr
    assert said == "" or "not valid" in said
