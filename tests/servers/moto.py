"""Moto, a stand-in for S3 in Python: conditional PUT and DELETE as AWS documents them, signatures unchecked."""

import urllib.request

from tests.servers.buckets import Bucket, Server, new_name
from tests.servers.process import ServerProcess

KEYS = {"access_key_id": "test-key", "secret_access_key": "test-secret", "region": "us-east-1"}
"""Credentials that every server of ours takes, and a region."""


def s3_bucket(endpoint: str, name: str) -> Bucket:
    """Return a bucket of a server that speaks S3."""
    return Bucket(f"s3://{name}", endpoint, {**KEYS, "endpoint": endpoint}, name)


class Moto(Server):
    """A server of moto."""

    def __init__(self) -> None:
        super().__init__(ServerProcess(["tests.servers.moto_process"]))

    def bucket(self) -> Bucket:
        """Make a new and empty bucket."""
        bucket = s3_bucket(self.endpoint, new_name())
        request = urllib.request.Request(f"{self.endpoint}/{bucket.name}", method="PUT")
        with urllib.request.urlopen(request, timeout=30):
            return bucket
