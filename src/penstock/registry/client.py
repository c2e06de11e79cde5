"""A schema registry that speaks Confluent's API; what was once read of it is kept."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx

from penstock.errors import DeclarationError, SetupError, TransientError
from penstock.registry.schema import Reference, Registered, Schema

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from penstock.settings import Registry as Place
    from penstock.settings import Settings

__all__ = ["Registry", "project_registry"]

_NOT_THERE = {40401: "subject", 40402: "version", 40403: "schema", 40408: "subject", 40409: "subject"}
_APICURIO = "/apis/ccompat/"
_MEDIA = "application/vnd.schemaregistry.v1+json"


class Registry:
    """One registry; with a folder, schemas by id are kept there and survive its outage."""

    def __init__(self, settings: Place, kept: Path | None = None) -> None:
        self.url = settings.url
        optional: dict[str, Any] = {"verify": settings.ca_file} if settings.ca_file else {}
        if settings.username and settings.password:
            optional["auth"] = (settings.username, settings.password.reveal())
        headers = {"Accept": f"{_MEDIA}, application/json"}
        # It is asked now and then: no connection is kept that a restart of the registry would leave dead.
        limits = httpx.Limits(max_keepalive_connections=0)
        self._client = httpx.Client(base_url=settings.url, timeout=30.0, headers=headers, limits=limits, **optional)
        self._kept = kept
        self._known: dict[int, Schema] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def subjects(self) -> list[str]:
        """All subjects."""
        return sorted(self._ask("GET", "/subjects"))

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject, oldest first; none if there is no such subject."""
        return sorted(self._ask("GET", f"/subjects/{_path(subject)}/versions", absent=True) or [])

    def version(self, subject: str, number: int | str = "latest") -> Registered | None:
        """One version of a subject, None if it is not there."""
        told = self._ask("GET", f"/subjects/{_path(subject)}/versions/{number}", absent=True)
        if not told:
            return None
        return Registered(told["subject"], int(told["version"]), int(told["id"]), self.whole(_schema(told)))

    def whole(self, schema: Schema) -> Schema:
        """A schema with the texts that it refers to."""
        if not schema.references or schema.used:
            return schema
        used: dict[str, str] = {}
        for one in schema.references:
            found = self.version(one.subject, one.version)
            if found is None:
                raise DeclarationError(
                    f"Reference {one.name!r} is not there: subject {one.subject} version {one.version}.",
                    code="reference-unknown",
                    remedy="Register it first.",
                )
            used |= dict(found.schema.used) | {one.name: found.schema.text}
        return replace(schema, used=tuple(used.items()))

    def history(self, subject: str) -> list[Registered]:
        """All versions of a subject, oldest first."""
        found = (self.version(subject, number) for number in self.versions(subject))
        return [one for one in found if one is not None]

    def by_id(self, number: int) -> Schema | None:
        """The schema of an id, None if there is none; kept once it was seen."""
        if number not in self._known:
            found = self._from_folder(number)
            if found is None:
                told = self._ask("GET", f"/schemas/ids/{number}", absent=True)
                if told is None:
                    return None
                found = _schema(told)
            self.keep(number, self.whole(found))
        return self._known[number]

    def keep(self, number: int, schema: Schema) -> None:
        """Keep the schema of an id, here and in the folder."""
        if number not in self._known:
            self._known[number] = schema
            self._to_folder(number, schema)

    def register(self, subject: str, schema: Schema) -> int:
        """Register a schema as the newest of a subject, or find it there; its id."""
        told = self._ask("POST", f"/subjects/{_path(subject)}/versions", json=_body(schema), about=subject)
        return int(told["id"])

    def find(self, subject: str, schema: Schema) -> Registered | None:
        """The version of a subject that is this schema, None if there is none."""
        told = self._ask("POST", f"/subjects/{_path(subject)}", json=_body(schema), absent=True)
        return Registered(told["subject"], int(told["version"]), int(told["id"]), schema) if told else None

    def compatible(self, subject: str, schema: Schema, version: int | str = "latest") -> tuple[bool, list[str]]:
        """Whether the registry would take a schema after a version, and what it says."""
        path = f"/compatibility/subjects/{_path(subject)}/versions/{version}?verbose=true"
        try:
            told = self._ask("POST", path, json=_body(schema))
        except DeclarationError as error:
            if not schema.references:
                raise
            return True, [f"the registry can't judge a schema with references: {error.problem}"]
        return bool(told["is_compatible"]), [str(one) for one in told.get("messages", ())]

    def level(self, subject: str | None = None) -> str:
        """The compatibility that holds for a subject, or for all that have none of their own."""
        own = f"/config/{_path(subject)}?defaultToGlobal=true" if subject else ""
        if own and (told := self._ask("GET", own, absent=True)):
            return str(told["compatibilityLevel"])
        return str(self._ask("GET", "/config")["compatibilityLevel"])

    def set_level(self, level: str, subject: str | None = None) -> None:
        """Set the compatibility of a subject, or the usual one."""
        path = f"/config/{_path(subject)}" if subject else "/config"
        if subject and level == "NONE" and _APICURIO in self.url:
            # Apicurio takes NONE of a subject for "as all others": it is said in its own interface, over another one.
            self._ask("PUT", path, json={"compatibility": "FULL"})
            rule = f"/apis/registry/v3/groups/default/artifacts/{_path(subject)}/rules/COMPATIBILITY"
            root = self.url.partition(_APICURIO)[0]
            told = {"ruleType": "COMPATIBILITY", "config": "NONE"}
            self._ask("PUT", f"{root}{rule}", json=told, media="application/json")
        else:
            self._ask("PUT", path, json={"compatibility": level})

    def delete(self, subject: str, version: int | None = None, *, permanent: bool = False) -> list[int]:
        """Delete a subject or one of its versions; ids in old messages can still be read unless it is permanent."""
        path = f"/subjects/{_path(subject)}" + (f"/versions/{version}" if version else "")
        told = self._ask("DELETE", path, about=subject)
        if permanent:
            self._ask("DELETE", f"{path}?permanent=true", absent=True)
        return [told] if isinstance(told, int) else sorted(told)

    def _from_folder(self, number: int) -> Schema | None:
        if self._kept is None:
            return None
        with suppress(FileNotFoundError):
            return _schema(json.loads((self._kept / f"{number}.json").read_text(encoding="utf-8")))
        return None

    def _to_folder(self, number: int, schema: Schema) -> None:
        if self._kept is None or (self._kept / f"{number}.json").exists():
            return
        self._kept.mkdir(parents=True, exist_ok=True)
        fresh = self._kept / f"{number}.json.{os.getpid()}"
        fresh.write_text(json.dumps(_body(schema) | {"used": schema.used}), encoding="utf-8")
        fresh.replace(self._kept / f"{number}.json")

    def _ask(
        self, method: str, path: str, *, json: Any = None, absent: bool = False, about: str = "", media: str = _MEDIA
    ) -> Any:
        try:
            answer = self._client.request(method, path, json=json, headers={"Content-Type": media})
        except httpx.TransportError as error:
            raise TransientError(
                f"The schema registry does not answer at {self.url} ({type(error).__name__}).",
                code="registry-away",
                remedy="Start it (`penstock up registry`), or correct its url in penstock.toml.",
            ) from error
        if answer.is_success:
            return answer.json() if answer.content else None
        code, said = _told(answer)
        if absent and answer.status_code == httpx.codes.NOT_FOUND:
            return None
        raise self._error(answer.status_code, code, said, about)

    def _error(self, status: int, code: int, said: str, about: str) -> Exception:
        if status in (401, 403):
            return SetupError(
                f"The schema registry at {self.url} does not let us in.",
                code="registry-refused",
                remedy="Set username and password of [profiles.….registry].",
            )
        if status == httpx.codes.CONFLICT:
            return DeclarationError(
                f"The registry refuses the schema of {about}: {said}",
                code="schema-incompatible",
                remedy="Make the change compatible, or use another subject.",
            )
        if "could not determine version" in said:  # Apicurio, of a JSON Schema
            return DeclarationError(
                "The registry does not know of which draft the JSON Schema is.",
                code="schema-draft",
                remedy='Say it there: "$schema": "http://json-schema.org/draft-07/schema#".',
            )
        if status >= 500 or status == httpx.codes.TOO_MANY_REQUESTS:
            return TransientError(
                f"The schema registry could not do it now ({status}: {said}).",
                code="registry-busy",
                remedy="Try again; `penstock logs registry` has more.",
            )
        missing = _NOT_THERE.get(code)
        return DeclarationError(
            f"There is no {missing} {about}." if missing and about else f"The registry refuses it: {said}",
            code=f"registry-{code or status}",
            remedy="See `penstock schemas list`." if missing else "Correct what it names.",
        )


_REGISTRIES: dict[tuple[str, Path], Registry] = {}


def project_registry(settings: Settings) -> Registry:
    """The one client of a project: what it has read stays known."""
    key = (settings.registry.url, settings.home)
    if key not in _REGISTRIES:
        _REGISTRIES[key] = Registry(settings.registry, settings.home / "schemas")
    return _REGISTRIES[key]


def _path(subject: str) -> str:
    return quote(subject, safe="")


def _body(schema: Schema) -> dict[str, Any]:
    references = [{"name": one.name, "subject": one.subject, "version": one.version} for one in schema.references]
    return {"schema": schema.text, "schemaType": schema.kind, **({"references": references} if references else {})}


def _schema(told: dict[str, Any]) -> Schema:
    references = (Reference(one["name"], one["subject"], int(one["version"])) for one in told.get("references") or ())
    used = ((name, text) for name, text in told.get("used", ()))
    return Schema(told.get("schemaType") or "AVRO", told["schema"], tuple(references), tuple(used))


def _told(answer: httpx.Response) -> tuple[int, str]:
    try:
        told = answer.json()
        return int(told.get("error_code", 0)), " ".join(str(told.get("message", "")).split())[:500]
    except (ValueError, AttributeError):
        return 0, answer.text[:200]
