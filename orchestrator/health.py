"""/healthz, /readyz and /metrics, served from a thread of its own: a stuck event loop can still be seen from outside.

`/healthz` says that the process lives, `/readyz` whether it should be given work (503 and the reason otherwise) and which tools it
does without for now, `/metrics` is
Prometheus's text format or OpenMetrics (with exemplars), rendered off the loop. Everything else is 404; nothing is written, no body is read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import REGISTRY
from prometheus_client.exposition import choose_encoder

from orchestrator.errors import ConfigError

PATIENCE = 5.0
"""Seconds that a client has to send its request."""
TEXT = "text/plain; charset=utf-8"

Problem = Callable[[], str | None]
"""Why no work should be given to this process; None: it is ready. Called from another thread."""


Render = Callable[[str], tuple[bytes, str]]
"""The metrics and their content type, for an Accept header. Called from another thread."""


def default(accept: str) -> tuple[bytes, str]:
    """What stands in prometheus-client's own registry."""
    encode, kind = choose_encoder(accept)
    return encode(REGISTRY), kind


Absent = Callable[[], Mapping[str, str]]
"""What is configured and not there now, and why: no reason to give no work. Called from another thread."""


@contextmanager
def serve(host: str, port: int, problem: Problem, metrics: Render = default, absent: Absent = dict) -> Iterator[str]:
    """Serve while the block lasts; gives the URL. Port 0 takes a free one. ConfigError when the address cannot be had."""

    class Handler(_Handler):
        asked = staticmethod(problem)
        rendered = staticmethod(metrics)
        missed = staticmethod(absent)

    try:
        server = _Server((host, port), Handler)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"worker.host, worker.port: {host}:{port} cannot be served: {error}; choose another"
        ) from error
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="health", daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away in the middle is no news."""


class _Handler(BaseHTTPRequestHandler):
    timeout = PATIENCE
    server_version, sys_version = "orchestrator", ""
    asked: Problem
    rendered: Render
    missed: Absent

    def do_GET(self) -> None:
        """Answer one of the three paths."""
        path = self.path.partition("?")[0]
        if path == "/healthz":
            self._say(HTTPStatus.OK, b"ok\n")
        elif path == "/readyz":
            problem = self.asked()
            status = HTTPStatus.OK if problem is None else HTTPStatus.SERVICE_UNAVAILABLE
            missed = "".join(f"not here: {name}: {why}\n" for name, why in self.missed().items())
            self._say(status, f"{problem or 'ready'}\n{missed}".encode())
        elif path == "/metrics":
            self._say(HTTPStatus.OK, *self.rendered(self.headers.get("Accept", "")))
        else:
            self._say(HTTPStatus.NOT_FOUND, b"/healthz, /readyz, /metrics\n")

    def _say(self, status: HTTPStatus, body: bytes, kind: str = TEXT) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Probes come every few seconds; they are not logged."""
