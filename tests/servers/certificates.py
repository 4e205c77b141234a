"""Certificates for tests: an authority of one's own, its server's and its clients'."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True)
class Files:
    """Where a certificate, its key and the authority to check it against lie."""

    certificate: Path
    key: Path
    authority: Path


class Authority:
    """Signs for ``localhost``, and for clients by name."""

    def __init__(self) -> None:
        self._ca = trustme.CA()

    def file(self, folder: Path) -> Path:
        """The authority's own certificate, as a client names it."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "authority.pem"
        self._ca.cert_pem.write_to_path(str(path))
        return path

    def server(self, folder: Path, name: str = "localhost") -> Files:
        return self._files(self._ca.issue_cert(name), folder)

    def client(self, folder: Path, name: str) -> Files:
        return self._files(self._ca.issue_cert("client@example.com", common_name=name), folder)

    def _files(self, made: trustme.LeafCert, folder: Path) -> Files:
        files = Files(folder / "certificate.pem", folder / "key.pem", self.file(folder))
        files.certificate.write_bytes(b"".join(one.bytes() for one in made.cert_chain_pems))
        files.key.write_bytes(made.private_key_pem.bytes())
        files.key.chmod(0o600)
        return files
