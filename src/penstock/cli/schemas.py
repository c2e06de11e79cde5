"""`penstock schemas …`: what is in the registry, and what a change would break."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.render import command_options, show, show_json, table
from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from penstock.registry.client import Registry
    from penstock.registry.contract import Contract
    from penstock.registry.evolution import Judgement
    from penstock.registry.schema import Registered, Schema
    from penstock.settings import Settings

_references = click.option(
    "--reference", "references", multiple=True, metavar="NAME=SUBJECT:VERSION", help="A schema that this one uses."
)


@click.group()
def schemas() -> None:
    """Schemas of topics in a registry: Avro (.avsc), JSON Schema (.json), Protobuf (.proto).

    \b
    Example:
      penstock schemas register orders-value orders.avsc
      penstock schemas check orders-value orders-2.avsc --pipelines pipelines/
      penstock schemas mode orders-value FULL
    """


@schemas.command()
@click.argument("subject")
@click.argument("file", type=click.Path(path_type=Path))
@_references
@click.option("--rules", type=click.Path(path_type=Path), metavar="FILE", help="Rules to keep beside it, as JSON.")
@command_options
def register(
    subject: str, file: Path, references: tuple[str, ...], rules: Path | None, as_json: bool, settings: Settings
) -> None:
    """Register a schema as the newest version of a subject; one that is there already is found.

    \b
    Example:
      penstock schemas register orders-value orders.avsc
      penstock schemas register orders-value orders.avsc --rules orders.rules.json
      penstock schemas register orders-value order.proto --reference money.proto=money:1
    """
    from penstock.registry.contract import keep_contract
    from penstock.registry.evolution import refuse_breaks

    schema = _schema(file, references)
    contract = _contract(rules) if rules else None
    with _registry(settings) as registry:
        refuse_breaks(registry, subject, schema)
        number = registry.register(subject, schema)
        if contract is not None:
            keep_contract(registry, subject, contract)
        found = registry.find(subject, schema)
    version = found.version if found else None
    if as_json:
        show_json({"subject": subject, "id": number, "version": version})
        return
    show(f"{subject} version {version} is schema id {number}.")


@schemas.command(name="list")
@command_options
def list_schemas(as_json: bool, settings: Settings) -> None:
    """All subjects with their newest version and what changes they allow.

    \b
    Example:
      penstock schemas list
    """
    with _registry(settings) as registry:
        rows = []
        for subject in registry.subjects():
            newest = registry.version(subject)
            if newest is not None:
                rows.append((subject, newest.schema.kind, newest.version, newest.id, registry.level(subject)))
    names = ("subject", "kind", "version", "id", "mode")
    if as_json:
        show_json([dict(zip(names, row, strict=True)) for row in rows])
    elif rows:
        table([name.upper() for name in names], rows)
    else:
        show("No schemas yet: penstock schemas register SUBJECT FILE")


@schemas.command(name="show")
@click.argument("subject")
@click.option("--version", "number", type=int, help="The newest, if none is named.")
@click.option("--id", "by_id", is_flag=True, help="SUBJECT is the id of a schema, as messages carry it.")
@command_options
def show_schema(subject: str, number: int | None, by_id: bool, as_json: bool, settings: Settings) -> None:
    """Print a schema.

    \b
    Example:
      penstock schemas show orders-value
      penstock schemas show orders-value --version 1
      penstock schemas show --id 7
    """
    with _registry(settings) as registry:
        if by_id:
            schema = registry.by_id(int(subject)) if subject.isdigit() else None
            if schema is None:
                raise _absent(f"schema id {subject}")
            told: dict[str, Any] = {"id": int(subject)}
        else:
            found = _version(registry, subject, number)
            schema, told = found.schema, {"subject": found.subject, "version": found.version, "id": found.id}
    if as_json:
        show_json({**told, "kind": schema.kind, "schema": schema.text, "references": list(schema.references)})
        return
    show(schema.pretty())


@schemas.command()
@click.argument("subject")
@click.argument("file", type=click.Path(path_type=Path))
@_references
@click.option("--pipelines", type=click.Path(path_type=Path), metavar="DIR", help="Also say which pipelines it breaks.")
@command_options
def check(
    subject: str, file: Path, references: tuple[str, ...], pipelines: Path | None, as_json: bool, settings: Settings
) -> None:
    """Say whether a subject would take a schema, and which pipelines it would break; nothing is registered.

    The exit code is 1 if it is refused or breaks something. Spark is not started.

    \b
    Example:
      penstock schemas check orders-value orders-2.avsc
      penstock schemas check orders-value orders-2.avsc --pipelines pipelines/     in CI
    """
    from penstock.pipeline.affected import affected
    from penstock.registry.evolution import judge

    schema = _schema(file, references)
    with _registry(settings) as registry:
        schema = registry.whole(schema)
        judged = judge(registry, subject, schema)
    broken = affected(pipelines, subject, schema, settings) if pipelines else []
    if as_json:
        show_json(
            {
                "subject": subject,
                "mode": judged.level,
                "allowed": judged.allowed,
                "breaks": [str(one) for one in judged.breaks],
                "registry": list(judged.registry_says),
                "pipelines": broken,
            }
        )
    else:
        _tell(judged)
        for one in broken:
            show(f"{one['place']}: {one['part']} of pipeline {one['pipeline']!r}: {one['problem']}")
        if pipelines and not broken:
            show(f"No pipeline in {pipelines} breaks.")
    if broken or not judged.allowed:
        raise SystemExit(1)


@schemas.command()
@click.argument("subject")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--version", "number", type=int, help="Compare with this version, not with the newest.")
@command_options
def diff(subject: str, file: Path | None, number: int | None, as_json: bool, settings: Settings) -> None:
    """Show what differs between a subject's version and a file, or its newest version.

    \b
    Example:
      penstock schemas diff orders-value orders-2.avsc
      penstock schemas diff orders-value --version 1
    """
    from penstock.registry.evolution import text_diff

    with _registry(settings) as registry:
        old = _version(registry, subject, number)
        newest = _version(registry, subject, None)
    new, name = (_schema(file, ()), str(file)) if file else (newest.schema, f"{subject} version {newest.version}")
    lines = text_diff(old, new, name)
    if as_json:
        show_json({"same": not lines, "lines": lines})
        return
    for line in lines or ["They are the same."]:
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        show(click.style(line, fg=colour) if colour else line)


@schemas.command()
@click.argument("subject")
@click.option("--version", "number", type=int, help="Only this version.")
@click.option("--permanent", is_flag=True, help="Also from the archive: messages of its ids can't be read any more.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@command_options
def delete(subject: str, number: int | None, permanent: bool, yes: bool, as_json: bool, settings: Settings) -> None:
    """Delete a subject or one of its versions.

    \b
    Example:
      penstock schemas delete orders-value --version 3
    """
    what = f"version {number} of {subject}" if number else f"all versions of {subject}"
    if not yes:
        click.confirm(f"Delete {what}{' for good' if permanent else ''}?", abort=True)
    with _registry(settings) as registry:
        gone = registry.delete(subject, number, permanent=permanent)
    if as_json:
        show_json({"subject": subject, "versions": gone})
        return
    show(f"Deleted {subject}: version {', '.join(map(str, gone))}.")


@schemas.command()
@click.argument("subject", required=False)
@click.argument("level", required=False)
@command_options
def mode(subject: str | None, level: str | None, as_json: bool, settings: Settings) -> None:
    """Show or set which changes a subject allows; without a subject what holds for all others.

    BACKWARD (new readers take old rows), FORWARD (old readers take new rows), FULL (both), each also with _TRANSITIVE
    (against all versions, not the newest only), or NONE.

    \b
    Example:
      penstock schemas mode                       of all subjects without their own
      penstock schemas mode orders-value FULL
      penstock schemas mode BACKWARD_TRANSITIVE   for all others
    """
    from penstock.registry.compatibility import LEVELS

    if subject is not None and level is None and subject.upper() in LEVELS:
        subject, level = None, subject
    if level is not None and level.upper() not in LEVELS:
        raise DeclarationError(
            f"{level!r} is no compatibility.", code="level-unknown", remedy=f"Use one of {', '.join(LEVELS)}."
        )
    with _registry(settings) as registry:
        if level is not None:
            registry.set_level(level.upper(), subject)
        now = registry.level(subject)
    if as_json:
        show_json({"subject": subject, "mode": now})
        return
    show(f"{subject or 'All subjects without their own'}: {now}")


def _tell(judged: Judgement) -> None:
    if judged.known is not None:
        show(f"{judged.subject} has this schema already: version {judged.known}.")
    elif judged.allowed:
        show(f"{judged.subject} ({judged.level}) takes this schema.")
    else:
        show(f"{judged.subject} ({judged.level}) refuses this schema:")
        for one in judged.breaks:
            show(f"  {one}")
        if judged.breaks and judged.registry_agrees:
            show("  (the registry itself would take it: its rules are looser here)")
        for said in () if judged.breaks else judged.registry_says:
            show(f"  {said}")


def _schema(file: Path, references: tuple[str, ...]) -> Schema:
    from penstock.registry.schema import read_schema, reference

    return read_schema(file, tuple(map(reference, references)))


def _contract(file: Path) -> Contract:
    from penstock.registry.contract import read_contract

    try:
        return read_contract(file.read_text(encoding="utf-8"), str(file))
    except OSError as error:
        raise DeclarationError(
            f"{file} can't be read ({error}).", code="rules-file", remedy="Name a readable file."
        ) from error


def _version(registry: Registry, subject: str, number: int | None) -> Registered:
    found = registry.version(subject, number or "latest")
    if found is None:
        raise _absent(f"{subject} version {number}" if number else subject)
    return found


def _absent(what: str) -> DeclarationError:
    return DeclarationError(f"The registry has no {what}.", code="schema-absent", remedy="See `penstock schemas list`.")


def _registry(settings: Settings) -> Registry:
    from penstock.registry.client import Registry

    return Registry(settings.registry)
