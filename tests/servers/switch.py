"""A dead-man's switch on the loopback: it takes pings, answers as it is told, and remembers what it heard."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class SwitchStub:
    """Use it in a ``with``; ``heard`` are the paths of its pings."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.answers: list[int] = []
        self.hold: threading.Event | None = None
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> SwitchStub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/ping/very-secret"

    def _handler(stub) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - the handler's self is another
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stub.heard.append(self.path)
                if stub.hold is not None:
                    stub.hold.wait(20)
                self.send_response(stub.answers.pop(0) if stub.answers else 200)
                self.send_header("location", "/elsewhere")
                self.end_headers()
                self.wfile.write(b"the answer's own secret")

            def log_message(self, *_: object) -> None:
                return

        return Handler
