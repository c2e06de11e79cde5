"""The Python code that the executors of a cluster need: this package, and the modules beside the pipeline's file."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import zipfile
from pathlib import Path

__all__ = ["packed_code"]

_PACKAGE = Path(__file__).parents[1]


def packed_code(folder: Path) -> list[Path]:
    """Two archives: ours, and the user's modules and packages without hidden folders."""
    place = Path(tempfile.mkdtemp(prefix="penstock-code-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    ours, theirs = place / "penstock.zip", place / "project.zip"
    _pack(ours, _PACKAGE.parent, sorted(_PACKAGE.rglob("*.py")))
    found = sorted(folder.glob("*.py"))
    for package in sorted(folder.glob("[!.]*/__init__.py")):
        found += sorted(package.parent.rglob("*.py"))
    _pack(theirs, folder, found)
    return [ours, theirs]


def _pack(archive: Path, root: Path, files: list[Path]) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for path in files:
            out.write(path, path.relative_to(root))
