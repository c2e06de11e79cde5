"""The registry is up when it knows its schemas, not when it answers."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any, ClassVar

from penstock.local.registry import RegistryService


class Restarted(BaseHTTPRequestHandler):
    """It lists subjects from the beginning on; the health of its storage is told beside."""

    known: ClassVar[bool] = False

    def do_GET(self) -> None:
        self.send_response(503 if self.path == "/health/ready" and not self.known else 200)
        self.end_headers()
        self.wfile.write(b"[]")

    def log_message(self, *words: Any) -> None:
        """Say nothing."""


def test_a_registry_that_still_reads_its_schemas_is_not_up() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Restarted) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        site: Any = SimpleNamespace(ports={"registry": server.server_port})
        try:
            assert not RegistryService().ready(site, 5)
            Restarted.known = True
            assert RegistryService().ready(site, 5)
        finally:
            server.shutdown()
