"""Which files a past batch had, out of the log that Spark keeps in a source's folder of the checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["files_of_batch", "is_log_of"]


def files_of_batch(told: Mapping[str, Any]) -> list[str]:
    """The files between a batch's begin and end."""
    first = told["begin"]["logOffset"] if told["begin"] else -1
    last = told["end"]["logOffset"]
    entries = {one["path"]: one["batchId"] for one in _entries(Path(told["log"]))}
    return sorted(_plain(path) for path, number in entries.items() if first < number <= last)


def is_log_of(told: Mapping[str, Any], folder: str) -> bool:
    """Whether a source's log is about files of that folder."""
    if not isinstance(told["end"], dict) or "logOffset" not in told["end"]:
        return False
    one = next(_entries(Path(told["log"])), None)
    if one is None:
        return False
    if "://" in folder:
        return str(one["path"]).startswith(folder.rstrip("/") + "/")
    path = Path(_plain(one["path"]))
    return path.is_relative_to(Path(folder).absolute()) or path.is_relative_to(Path(folder).resolve())


def _entries(log: Path) -> Iterator[dict[str, Any]]:
    numbered = [path for path in log.glob("[0-9]*") if path.suffix in ("", ".compact")]
    for path in sorted(numbered, key=lambda one: int(one.name.partition(".")[0])):
        for line in path.read_text(encoding="utf-8").splitlines()[1:]:
            yield json.loads(line)


def _plain(uri: str) -> str:
    return unquote(urlparse(uri).path) if uri.startswith("file:") else uri
