"""The process of moto's server."""

import logging
import os
import sys
import threading

from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from tests.servers.wire import announce
from werkzeug.serving import make_server


def main() -> None:
    """Serve S3 on a free port until standard input is closed."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=MotoRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    announce(server.server_port)
    sys.stdin.read()
    os._exit(0)  # threads may still serve, but no client is left


if __name__ == "__main__":
    main()
