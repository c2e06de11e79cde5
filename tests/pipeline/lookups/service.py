"""An HTTP service that knows customers, counts who asks, and can be told to misbehave."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Reply = tuple[int, bytes]


class Service(ThreadingHTTPServer):
    """Answers `/customers/<key>` with a name and a tier, or with what a test has set for the key."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Asked)
        self.open: list[socket.socket] = []
        self.calls: Counter[str] = Counter()
        self.headers: set[str | None] = set()
        self.replies: dict[str, Callable[[], Reply]] = {}
        self.busy = self.peak = 0
        self.at_once = threading.Barrier(1)
        self.over = threading.Event()
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def says(self, key: str, status: int, body: Any = b"") -> None:
        """Answer a key with this from now on."""
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.replies[key] = lambda: (status, text)

    def says_in_turn(self, key: str, *replies: Reply) -> None:
        """Answer a key with one after the other, the last one for ever."""
        left = list(replies)
        self.replies[key] = lambda: left.pop(0) if len(left) > 1 else left[0]

    def hangs(self, key: str) -> None:
        """Never answer a key."""
        self.replies[key] = self._hang

    def stop(self) -> None:
        """Go away: nobody listens any more, and those who talk are cut off."""
        self.over.set()
        self.shutdown()
        self.server_close()
        for one in self.open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Remember who talks."""
        talking, where = super().get_request()
        self.open.append(talking)
        return talking, where

    def _hang(self) -> Reply:
        self.over.wait()
        return 500, b""

    def handle_error(self, *said: Any) -> None:
        """A client that did not wait is nothing to tell of."""


class _Asked(BaseHTTPRequestHandler):
    server: Service
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        service = self.server
        key = unquote(self.path.rpartition("/")[2])
        with service.lock:
            service.calls[key] += 1
            service.headers.add(self.headers["Authorization"])
            service.busy += 1
            service.peak = max(service.peak, service.busy)
        try:
            service.at_once.wait(20)
            known = json.dumps({"name": f"name {key}", "tier": "gold", "more": [1]}).encode()
            status, body = service.replies.get(key, lambda: (200, known))()
        finally:
            with service.lock:
                service.busy -= 1
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *said: Any) -> None:
        pass


@contextmanager
def serving(port: int = 0) -> Iterator[Service]:
    """A service for a while."""
    made = Service(port)
    try:
        yield made
    finally:
        if not made.over.is_set():
            made.stop()
