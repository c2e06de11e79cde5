"""Where the local services listen, in files that Connect's worker reads whenever a connector starts.

Their ports may move between two starts, and the old one may be another project's by then: a connector's configuration,
which outlives both, must not say it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cdc.secrets import secrets_folder

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.settings import Settings

__all__ = ["note_place", "place_reference"]


def note_place(service: str, place: object, settings: Settings) -> None:
    """Write down where a local service listens from now on."""
    path = _file(service, settings)
    fresh = path.with_suffix(".tmp")
    fresh.write_text(f"place={place}\n", encoding="utf-8")
    fresh.replace(path)


def place_reference(service: str, place: object, settings: Settings) -> str:
    """Note it, and give what a configuration says of it; of a service or to a worker elsewhere, the place itself."""
    if {service, "connect"} & settings.external:
        return str(place)
    note_place(service, place, settings)
    return f"${{file:{_file(service, settings)}:place}}"


def _file(service: str, settings: Settings) -> Path:
    return secrets_folder(settings) / f"local-{service}.properties"  # no capture has a name with a hyphen
