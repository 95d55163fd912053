"""Azurite, Microsoft's stand-in for Azure Blob Storage; needs Node.js."""

import base64
import hashlib
import hmac
import urllib.request
from email.utils import formatdate

from tests.servers import tools
from tests.servers.buckets import Bucket, Server, new_name
from tests.servers.process import ServerProcess

ACCOUNT = "devstoreaccount1"
KEY = base64.b64encode(b"a key that the server is told").decode()


class Azurite(Server):
    """A server of azurite, which keeps everything in memory.

    Raises
    ------
    tools.Missing
        If azurite is not installed.
    """

    def __init__(self) -> None:
        options = "--blobPort 0 --inMemoryPersistence --disableTelemetry --skipApiVersionCheck --silent".split()
        super().__init__(
            ServerProcess(
                [str(tools.find("azurite-blob")), *options],
                python=False,
                variables={"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
            )
        )

    def bucket(self) -> Bucket:
        """Make a new and empty container."""
        name = new_name()
        options = {"account_name": ACCOUNT, "account_key": KEY, "endpoint": f"{self.endpoint}/{ACCOUNT}"}
        with urllib.request.urlopen(self._create_container(name), timeout=30):
            return Bucket(f"az://{name}", self.endpoint, options, name)

    def _create_container(self, name: str) -> urllib.request.Request:
        """Return a signed request, since obstore has none for containers."""
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2023-11-03"}
        signed = "".join(f"{header}:{value}\n" for header, value in headers.items())
        # the account is named twice: by the protocol, and by the path of an emulator
        text = f"PUT{12 * chr(10)}{signed}/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
        signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)).decode()
        return urllib.request.Request(
            f"{self.endpoint}/{ACCOUNT}/{name}?restype=container",
            method="PUT",
            headers={**headers, "Authorization": f"SharedKey {ACCOUNT}:{signature}"},
        )
