"""A user's file as a Pipeline; a mistake in it is one sentence with its line."""

from __future__ import annotations

import dataclasses
import difflib
import importlib.util
import re
import sys
import traceback
from typing import TYPE_CHECKING

from penstock.cdc.capture import Capture
from penstock.errors import DeclarationError, PenstockError
from penstock.pipeline.declare import Pipeline

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

__all__ = ["load_capture", "load_pipeline"]


def load_pipeline(path: Path) -> Pipeline:
    """Run a file and return the one pipeline that it declares."""
    found = [value for value in vars(_module(path)).values() if isinstance(value, Pipeline)]
    if len({id(one) for one in found}) != 1:
        raise DeclarationError(
            f"{path} declares {len(found)} pipelines.",
            code="pipeline-missing",
            place=str(path),
            remedy='Declare exactly one at the top of the file: orders = ps.Pipeline("orders").',
        )
    return found[0]


def load_capture(path: Path, name: str) -> Capture:
    """Run a file and return the capture of that name that it declares."""
    found = [value for value in vars(_module(path)).values() if isinstance(value, Capture) and value.name == name]
    if not found:
        raise DeclarationError(
            f"{path} declares no capture {name!r}.",
            code="capture-unknown",
            place=str(path),
            remedy=f'Declare it at the top of the file: {name} = ps.capture("{name}", tables=[…]).',
        )
    return found[0]


def _module(path: Path) -> ModuleType:
    if not path.is_file():
        raise DeclarationError(
            f"There is no file {path}.", code="file-missing", remedy="Name the file that declares the pipeline."
        )
    if path.stem in sys.stdlib_module_names or path.stem in ("penstock", "pyspark", "pandas"):
        raise DeclarationError(
            f"{path.name} has the name of a module that others import.",
            code="file-name",
            place=str(path),
            remedy=f"Give it another name, such as {path.stem}_pipeline.py.",
        )
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    if spec is None or spec.loader is None:
        raise DeclarationError(f"{path} is not a Python file.", code="file-wrong", remedy="Name a file ending in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except PenstockError:
        raise
    except Exception as error:
        raise _explained(error, path.resolve()) from error
    return module


def _explained(error: Exception, path: Path) -> DeclarationError:
    """What Python said, at the user's own line, with a hint where we know one."""
    line: int | None = error.lineno if isinstance(error, SyntaxError) else None
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == str(path):
            line = frame.lineno
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    return DeclarationError(
        f"{type(error).__name__}: {said}.",
        code="file-broken",
        place=f"{path}:{line}" if line else str(path),
        remedy=_hint(error) or "Correct this line.",
    )


def _hint(error: Exception) -> str:
    match = re.match(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'", str(error))
    if match is None:
        return ""
    import penstock

    kind = getattr(penstock, match[1], None)
    if not dataclasses.is_dataclass(kind):
        return ""
    known = [one.name for one in dataclasses.fields(kind)]
    near = difflib.get_close_matches(match[2], known, 1)
    return f"Did you mean {near[0]!r}?" if near else f"{match[1]} takes {', '.join(known)}."
