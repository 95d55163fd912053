"""The process of moto's server."""

import io
import logging
import os
import sys
import threading
from typing import Any

from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from tests.servers.wire import announce
from werkzeug.serving import make_server
from werkzeug.wsgi import get_input_stream


class OneByOne:
    """The application, which answers one request at a time.

    moto looks at the condition of a write and stores the value in two steps: of two threads both could succeed.
    """

    def __init__(self) -> None:
        self._application = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.Lock()

    def __call__(self, environment: dict[str, Any], start_response: Any) -> list[bytes]:
        # the whole body first: a client that sends it slowly, or never, must not keep others waiting
        body = get_input_stream(environment).read()
        chunked = environment.pop("HTTP_TRANSFER_ENCODING", None) is not None
        environment["wsgi.input"] = io.BytesIO(body)
        if body or chunked:
            environment["CONTENT_LENGTH"] = str(len(body))
        with self._lock:
            return [*self._application(environment, start_response)]


def main() -> None:
    """Serve S3 on a free port until standard input is closed."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, OneByOne(), threaded=True, request_handler=MotoRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    announce(server.server_port)
    sys.stdin.read()
    os._exit(0)  # threads may still serve, but no client is left


if __name__ == "__main__":
    main()
