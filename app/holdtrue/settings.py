"""what the environment and flags tell this process"""

from __future__ import annotations

import ipaddress
import os
import secrets
import shlex
import socket
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from dotenv import dotenv_values
from pydantic import BeforeValidator, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from holdtrue.errors import SettingsRefused
from holdtrue.model import parse_duration, show_duration

PREFIX = "HOLDTRUE_"
SECRETS = ("ledger_secret", "token", "metrics_token")
"""Settings that have a ``…_FILE`` twin and are never printed."""

SHORTEST_SECRET = 16


def _duration(value: object) -> object:
    if not isinstance(value, str):
        return value
    duration = parse_duration(value)
    if duration is None:
        raise ValueError("write a duration such as 250ms, 10s, 5m")
    return duration


Duration = Annotated[timedelta, BeforeValidator(_duration), Field(gt=timedelta(0))]


class Settings(BaseSettings):
    """What one process is told. Flags win over the environment, the environment over ``.env`` beside ``holdtrue.yaml``.

    What the whole team shares (databases, notifiers, the store) is in ``holdtrue.yaml`` instead.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", env_ignore_empty=True)

    config: Path = Field(Path("holdtrue.yaml"), description="The file that names databases, notifiers and the store.")
    ledger_secret: SecretStr | None = Field(
        None, description="The key under which violations are recognised again; `serve` needs it."
    )
    url: str = Field("", description="The service that the commands speak to; without it they open the store.")
    token: SecretStr | None = Field(
        None, description="Pages and API of `serve` ask for it; the commands send it to `url`."
    )
    metrics_token: SecretStr | None = Field(
        None, description="`/metrics` asks for it, or for `HOLDTRUE_TOKEN`; without it scrapes need none."
    )
    listen: str = Field("127.0.0.1:8080", description="Where `serve` listens: address:port; port 0 takes a free one.")
    allow_open: bool = Field(False, description="Listen beyond this machine without a token.")
    allow_empty: bool = Field(False, description="Start with a catalog that has no invariant.")
    instance: str = Field("", description="This process's name in the store and in logs; made up unless given.")
    log_format: Literal["text", "json"] = Field("text", description="One line for people, or one JSON object a line.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="The least that is logged.")
    grace: Duration = Field(
        timedelta(seconds=10), description="How long a stopping service waits for runs before it cancels them."
    )
    tick: Duration = Field(timedelta(seconds=1), description="How often the service looks for due work.")
    lease_ttl: Duration = Field(
        timedelta(seconds=30), description="How long a claim lasts without renewal; it is renewed all the while."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003  the signature is pydantic's
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what is passed in: `load_settings` reads the environment it is given, never the process's own."""
        return (init_settings,)

    @field_validator("url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError("write http://… or https://…")
        return value.rstrip("/")

    @field_validator("listen")
    @classmethod
    def _has_a_port(cls, value: str) -> str:
        host, colon, port = value.rpartition(":")
        if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise ValueError("write address:port, such as 127.0.0.1:8080, 0.0.0.0:8080 or [::1]:8080")
        return value

    @field_validator("ledger_secret")
    @classmethod
    def _is_long_enough(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < SHORTEST_SECRET:
            raise ValueError(f"use at least {SHORTEST_SECRET} characters")
        return value

    @property
    def host(self) -> str:
        """The address to listen on, without brackets."""
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port to listen on; 0 is any free one."""
        return int(self.listen.rpartition(":")[2])

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach us."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def ledger_key(self) -> bytes:
        """The ledger secret as bytes.

        Raises:
            SettingsRefused: there is none; the remedy is a line that makes one (semantics 4.2).
        """
        if self.ledger_secret is None:
            raise SettingsRefused(
                "no HOLDTRUE_LEDGER_SECRET: without it violations cannot be recognised from run to run",
                remedy=f"make one: {line_that_makes_a_secret(self.config)}",
            )
        return self.ledger_secret.get_secret_value().encode()

    def check_listen(self) -> None:
        """See that an address beyond this machine is protected.

        Raises:
            SettingsRefused: it is not, and nobody said that this is meant.
        """
        if not self.loopback and self.token is None and not self.allow_open:
            raise SettingsRefused(
                f"listening on {self.listen} without a token would let anyone on the network in",
                remedy="set HOLDTRUE_TOKEN, or say --allow-open",
            )


def load_settings(config: Path | None, environ: Mapping[str, str], **flags: object) -> Settings:
    """Read settings: flags (None is "not given"), then ``environ``, then ``.env`` beside the config file.

    Raises:
        SettingsRefused: a value is wrong (it is named, not shown), a secret's file cannot be read, or a secret is given
            both by value and by file.
    """
    path = config or Path(environ.get(f"{PREFIX}CONFIG") or "holdtrue.yaml")
    given = environment(path, environ)
    values = {**_from_environment(given), **{name: value for name, value in flags.items() if value is not None}}
    values["config"] = path
    values.setdefault("instance", f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}")
    try:
        return Settings(**values)
    except ValidationError as problem:
        raise SettingsRefused(_describe(problem, flags)) from None  # its text shows the values, secrets among them


def environment(config: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` over the ``.env`` beside the config file: where ``${NAME}`` in ``holdtrue.yaml`` is looked up too."""
    dotenv = config.parent / ".env"
    beside = dotenv_values(dotenv, interpolate=False) if dotenv.is_file() else {}
    return {**{name: value for name, value in beside.items() if value is not None}, **environ}


def line_that_makes_a_secret(config: Path) -> str:
    """A shell line that adds a ledger secret to the ``.env`` beside the config file, for its owner alone to read."""
    make = 'import secrets; print("HOLDTRUE_LEDGER_SECRET=" + secrets.token_hex(32))'
    return f"(umask 077; python3 -c '{make}' >> {shlex.quote(str(config.parent / '.env'))})"


def _from_environment(given: Mapping[str, str]) -> dict[str, Any]:
    source = EnvSettingsSource(Settings)
    source.env_vars = {name.lower(): value for name, value in {**given, **_secret_files(given)}.items() if value}
    return source()


def _secret_files(given: Mapping[str, str]) -> dict[str, str]:
    """The secrets that are given as ``…_FILE``, by the name of the variable they stand for."""
    found = {}
    for field in SECRETS:
        name = f"{PREFIX}{field.upper()}"
        path = given.get(f"{name}_FILE")
        if not path:
            continue
        if given.get(name):
            raise SettingsRefused(f"both {name} and {name}_FILE are set", remedy="keep one of them")
        try:
            found[name] = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise SettingsRefused(f"{name}_FILE names a file that cannot be read") from None
        if not found[name]:
            raise SettingsRefused(f"{name}_FILE names an empty file")
    return found


def _describe(problem: ValidationError, flags: Mapping[str, object]) -> str:
    sentences = []
    for error in problem.errors(include_url=False, include_context=False, include_input=False):
        field = str(error["loc"][0]) if error["loc"] else "settings"
        name = f"--{field.replace('_', '-')}" if flags.get(field) is not None else f"{PREFIX}{field.upper()}"
        sentences.append(f"{name}: {error['msg'].removeprefix('Value error, ')}")
    return "; ".join(sentences)


def show_default(field: str) -> str:
    """A setting's default as the documentation writes it."""
    default = Settings.model_fields[field].default
    if default is None or default == "":
        return ""
    if isinstance(default, timedelta):
        return show_duration(default)
    return str(default).lower() if isinstance(default, bool) else str(default)
