"""``rclone serve s3``: S3 in Go, with checked signatures and conditional PUT under a lock.

It opens a value after it has sent the headers. Where a write comes between, it notices at the end that the bytes do
not have the MD5 of the ETag, and closes the connection before the end of the body: in most cases no wrong value, but
a request that failed and has to be repeated. If the new value is longer, its first bytes arrive as if they were the
old one, and metadata are stored after the bytes: of the reads of a value that is replaced all the time, one in a
hundred has the bytes of one state and the ETag or metadata of another. With a cache (``--vfs-cache-mode``) it sends
the wrong bytes instead, and loses updates. Without remembered directories (``--dir-cache-time 0``) each write takes
longer than the one before.
"""

import tempfile
from pathlib import Path

from tests.servers import tools
from tests.servers.buckets import Bucket, Server
from tests.servers.moto import KEYS, s3_bucket
from tests.servers.process import ServerProcess


class Rclone(Server):
    """A server of rclone, which keeps its objects in a temporary directory.

    Raises
    ------
    tools.Missing
        If rclone is not installed.
    """

    def __init__(self) -> None:
        program = str(tools.find("rclone"))
        self._folder = tempfile.TemporaryDirectory()
        keys = f"{KEYS['access_key_id']},{KEYS['secret_access_key']}"
        options = ["--addr", "127.0.0.1:0", "--auth-key", keys, "--config", "", "--cache-dir", f"{self._folder.name}/c"]
        buckets = Path(self._folder.name, "buckets")
        buckets.mkdir()
        super().__init__(ServerProcess([program, "serve", "s3", str(buckets), *options], python=False))

    def bucket(self) -> Bucket:
        """Make a new and empty bucket."""
        return s3_bucket(self.endpoint)

    def close(self) -> None:
        """End the server and remove its objects."""
        super().close()
        self._folder.cleanup()
