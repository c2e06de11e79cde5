"""The Java that runs the services: found, and known to be new enough."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import SetupError

__all__ = ["MINIMUM", "Java", "find_java"]

MINIMUM = 17
_REMEDY = f"Install Java {MINIMUM} or newer (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME."


@dataclass(frozen=True)
class Java:
    """A Java runtime that was asked for its version."""

    path: Path
    version: int


def find_java() -> Java:
    """Return the Java of JAVA_HOME, else of PATH; refuse a missing or old one."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if found is None:
        where = f"under JAVA_HOME={home}" if home else "on PATH"
        raise SetupError(f"Java was not found {where}.", code="java-missing", remedy=_REMEDY)
    try:
        answer = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise SetupError(f"{found} does not run ({error}).", code="java-broken", remedy=_REMEDY) from error
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    version = int(match.group(1)) if match else 0
    if version < MINIMUM:
        raise SetupError(f"{found} is Java {version or 'of an unknown version'}.", code="java-old", remedy=_REMEDY)
    return Java(Path(found), version)
