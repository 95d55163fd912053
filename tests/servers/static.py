"""A server of files as nginx serves them: GET and HEAD, single ranges, strong ETags, no listing."""

import argparse
import os
import stat
import tempfile
from email.utils import formatdate
from pathlib import Path

from tests.servers.buckets import Bucket, Server, new_name
from tests.servers.process import ServerProcess
from tests.servers.wire import Request, Response, precondition, serve, value_response


class StaticServer(Server):
    """A server of the files below a directory.

    Parameters
    ----------
    root : Path, optional
        The directory; a temporary one if left out.
    missing : int
        The status for files that do not exist; buckets that may not be listed answer 403.
    redirects : dict of str to str
        Paths begun by a key are answered by a redirect to the value instead, such as ``{"/old/": "/new/"}``.
    """

    def __init__(
        self, root: Path | None = None, *, missing: int = 404, redirects: dict[str, str] | None = None
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory() if root is None else None
        self.root = Path(self._temporary.name if self._temporary else root or "")
        moved = [text for pair in (redirects or {}).items() for text in ("--redirect", *pair)]
        super().__init__(ServerProcess(["tests.servers.static", str(self.root), "--missing", str(missing), *moved]))

    def bucket(self) -> Bucket:
        """Make a new and empty directory; `directory` says where its files go."""
        name = new_name()
        (self.root / name).mkdir()
        return Bucket(f"{self.endpoint}/{name}", self.endpoint, {}, name)

    def directory(self, bucket: Bucket) -> Path:
        """Return the directory that a bucket's values are files of."""
        return self.root / bucket.name

    def close(self) -> None:
        """End the server and remove its directory if that was temporary."""
        super().close()
        if self._temporary:
            self._temporary.cleanup()


class Files:
    """The answers to requests."""

    def __init__(self, root: str, missing: int, redirects: list[tuple[str, str]]) -> None:
        self.root = os.path.realpath(root)
        self.missing = missing
        self.redirects = redirects

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        if request.method not in ("GET", "HEAD"):
            return Response(405, [("Allow", "GET, HEAD")])
        for old, new in self.redirects:
            if request.target.startswith(old):
                return Response(302, [("Location", new + request.target.removeprefix(old))])
        if ".." in request.path.split("/") or "\0" in request.path:
            return Response(400)
        try:
            file = os.open(self.root + request.path, os.O_RDONLY)
        except OSError:
            return Response(self.missing)
        try:
            facts = os.fstat(file)
            if not stat.S_ISREG(facts.st_mode):
                return Response(self.missing)
            etag = f'"{facts.st_mtime_ns:x}-{facts.st_ino:x}-{facts.st_size:x}"'
            headers = [("ETag", etag), ("Last-Modified", formatdate(facts.st_mtime, usegmt=True))]
            if refused := precondition(request, etag):
                return Response(refused, headers)
            return value_response(
                request, facts.st_size, lambda start, stop: os.pread(file, stop - start, start), headers
            )
        finally:
            os.close(file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root")
    parser.add_argument("--missing", type=int, default=404)
    parser.add_argument("--redirect", nargs=2, action="append", default=[])
    arguments = parser.parse_args()
    serve(Files(arguments.root, arguments.missing, arguments.redirect).answer)
