"""From a command to the first row that it writes, with warm caches and nothing running yet."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Consumer

from penstock.broker import Topics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.settings import Settings

__all__ = ["first_row"]

_SECONDS = 120.0


def first_row(settings: Settings, command: Sequence[str], **environment: str) -> float:
    """The seconds until a process has written the first row to the topic that NEXMARK_ANSWER names to it."""
    sink = f"first-{uuid.uuid4().hex[:8]}"
    Topics(settings.kafka).create(sink, partitions=1)
    with tempfile.TemporaryDirectory() as folder:
        named = f'profile = "bench"\n[profiles.bench.kafka]\nbootstrap = "{settings.kafka.bootstrap}"\n'
        (Path(folder) / "penstock.toml").write_text(named, encoding="utf-8")
        client = _reader(settings, sink)
        began = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "NEXMARK_ANSWER": sink, **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            while not client.consume(1, 0.05):
                if process.poll() is not None or time.perf_counter() - began > _SECONDS:
                    raise RuntimeError(f"no row came from {' '.join(command)}")
            return time.perf_counter() - began
        finally:
            client.close()
            process.send_signal(signal.SIGINT)
            process.wait(60)
            Topics(settings.kafka).delete(sink)


def _reader(settings: Settings, topic: str) -> Consumer:
    options = {"bootstrap.servers": settings.kafka.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    client = Consumer(options)
    client.subscribe([topic])
    client.poll(3.0)
    return client
