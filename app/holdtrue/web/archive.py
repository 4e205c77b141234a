"""a scaffold's files as one zip, the same bytes for the same files"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence

_LONG_AGO = (1980, 1, 1, 0, 0, 0)


def zipped(folder: str, files: Sequence[tuple[str, str]]) -> bytes:
    """The files below ``folder``; paths are relative and were made by us."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files:
            entry = zipfile.ZipInfo(f"{folder}/{path}", _LONG_AGO)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, text.encode())
    return out.getvalue()
