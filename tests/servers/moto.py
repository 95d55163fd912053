"""Moto, a stand-in for S3 in Python: conditional PUT and DELETE as AWS documents them, signatures unchecked."""

import urllib.request
from datetime import timedelta

import obstore
from tests.servers.buckets import Bucket, Server, new_name
from tests.servers.process import ServerProcess

KEYS = {"access_key_id": "test-key", "secret_access_key": "test-secret", "region": "us-east-1"}
"""Credentials that every server of ours takes, and a region."""


class Moto(Server):
    """A server of moto."""

    def __init__(self) -> None:
        super().__init__(ServerProcess(["tests.servers.moto_process"]))

    def bucket(self) -> Bucket:
        """Make a new and empty bucket."""
        return s3_bucket(self.endpoint)


def s3_bucket(endpoint: str) -> Bucket:
    """Make a new and empty bucket on a server that speaks S3."""
    name = new_name()
    bucket = Bucket(f"s3://{name}", endpoint, {**KEYS, "endpoint": endpoint}, name)
    # obstore makes no buckets, but it signs
    signed = obstore.sign(bucket.store(), "PUT", "", timedelta(minutes=1))
    with urllib.request.urlopen(urllib.request.Request(signed, method="PUT"), timeout=30):
        return bucket
