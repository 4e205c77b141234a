"""How the tests' own servers are run: as nobody when we are root, and never longer than the tests."""

from __future__ import annotations

import atexit
import os
import pwd
import re
import shutil
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

KEEPER = 'exec 3<&0; "$@" </dev/null 3<&- & child=$!; read -r _ <&3; kill -TERM "$child" 2>/dev/null; wait "$child"'
"""A shell script: the server lives as long as its standard input is open, so that none is left after a SIGKILL."""


def identity(libraries: str = "") -> dict[str, Any]:
    """Arguments of ``Popen``: as root the server runs as ``nobody``; nothing of our environment reaches it."""
    environ = {"PATH": "/usr/bin:/bin", "HOME": "/", "LC_ALL": "C", "TZ": "UTC"}
    if libraries:
        environ["LD_LIBRARY_PATH"] = libraries
    if os.getuid() != 0:
        return {"env": environ, "cwd": "/"}
    return {"env": environ, "cwd": "/", "user": "nobody", "group": "nogroup", "extra_groups": []}


def own(folder: Path) -> None:
    """Give a folder and what is in it to the user whom the servers run as."""
    if os.getuid() == 0:
        account = pwd.getpwnam("nobody")
        for path in (folder, *folder.rglob("*")):
            os.chown(path, account.pw_uid, account.pw_gid)


@dataclass(frozen=True)
class Program:
    """A server's program and the folders of the libraries that it needs beside the system's."""

    path: Path
    libraries: str


@cache
def program(name: str) -> Program:
    """A server as it is on the PATH, or behind the wrapper that scripts/system-deps made."""
    found = shutil.which(name) or shutil.which(name, path="/usr/local/sbin:/usr/sbin")
    assert found is not None, f"{name} is not on the PATH: run `make system`"
    path, libraries = Path(found).resolve(), ""
    for _ in range(3):
        if path.read_bytes()[:2] != b"#!":
            break
        script = path.read_text(encoding="utf-8")
        paths = re.search(r'LD_LIBRARY_PATH="([^"$]*)', script)
        libraries = paths[1] if paths else libraries
        target = re.search(r'^exec "([^"]+)"', script, re.MULTILINE)
        assert target is not None, f"{path} is a script that names no program"
        path = Path(target[1]).resolve()
    return Program(path, libraries)


def may_be_run(path: Path) -> bool:
    """Whether the user whom the servers run as can reach this: a clone may lie below a closed /root."""
    return os.getuid() != 0 or all(one.stat().st_mode & stat.S_IXOTH for one in path.parents)


def copy_for_servers(found: Program, trees: Mapping[Path, str]) -> Path:
    """A folder that ends with the tests, with copies of ``trees`` under these names, and of the libraries."""
    folder = Path(tempfile.mkdtemp(prefix="holdtrue-test-programs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    for source, name in trees.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy(source, target)
    libraries = folder / "libraries"
    libraries.mkdir()
    for place in filter(None, found.libraries.split(":")):
        for library in Path(place).glob("*.so*"):
            shutil.copy(library, libraries / library.name)
    return folder
