"""reads a connection's secrets, at each new connection"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field

from holdtrue.catalog import resolve_secret
from holdtrue.errors import SettingsRefused
from holdtrue.model import Failure, FailureReason, ReplicaConfig

_COMMAND_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Login:
    """Where and as whom to connect; never printed."""

    url: str = field(repr=False)
    password: str | None = field(repr=False)


def read_login(replica: ReplicaConfig, environ: Mapping[str, str]) -> Login | Failure:
    """Resolve the URL and the password now: passwords rotate (semantics 1.7).

    A password given apart is used verbatim, whatever characters it has.
    """
    try:
        url = resolve_secret(replica.url, environ)
        password = resolve_secret(replica.password, environ) if replica.password is not None else None
    except SettingsRefused as problem:
        return Failure(FailureReason.REFUSED, f"connection refused: {problem.message}")
    if replica.password_command:
        return _from_command(url, replica.password_command)
    return Login(url, password)


def _from_command(url: str, command: tuple[str, ...]) -> Login | Failure:
    try:
        done = subprocess.run(  # noqa: S603  the operator's own command, without a shell
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Failure(FailureReason.REFUSED, f"connection refused: password_command took over {_COMMAND_SECONDS:g} s")
    except OSError:
        return Failure(FailureReason.REFUSED, "connection refused: password_command could not be started")
    if done.returncode:
        return Failure(FailureReason.REFUSED, f"connection refused: password_command ended with {done.returncode}")
    try:
        text = done.stdout.decode("utf-8")
    except UnicodeDecodeError:
        return Failure(FailureReason.REFUSED, "connection refused: password_command printed no UTF-8 text")
    return Login(url, text.removesuffix("\n").removesuffix("\r"))
