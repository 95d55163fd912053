"""``rclone serve s3``: S3 in Go, with checked signatures and conditional PUT under a lock."""

import tempfile
from pathlib import Path

from tests.servers import tools
from tests.servers.buckets import Bucket, Server, new_name
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
        # directories would be remembered for five minutes, and new buckets overlooked; with 0s it would never rest
        options += ["--dir-cache-time", "1ms", "--log-level", "NOTICE"]
        self._root = Path(self._folder.name, "buckets")
        self._root.mkdir()
        super().__init__(ServerProcess([program, "serve", "s3", str(self._root), *options], python=False))

    def bucket(self) -> Bucket:
        """Make a new and empty bucket."""
        bucket = s3_bucket(self.endpoint, new_name())
        (self._root / bucket.name).mkdir()
        return bucket

    def close(self) -> None:
        """End the server and remove its objects."""
        super().close()
        self._folder.cleanup()
