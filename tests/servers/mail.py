"""A mail server on the loopback that answers by script, and keeps what it took."""

from __future__ import annotations

import ssl
from collections import deque
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

USER, PASSWORD = "holdtrue", "hunter2-of-the-mail"


class _AnyPort(Controller):
    """Listens on whatever port is free."""

    def _trigger_server(self) -> None:
        server: Any = self.server
        self.port = server.sockets[0].getsockname()[1]
        super()._trigger_server()


class MailStub:
    """Use it in a ``with``. ``data`` and ``recipient`` are what the next DATA or RCPT gets, instead of being taken."""

    def __init__(self, context: ssl.SSLContext | None = None, *, implicit: bool = False, login: bool = False) -> None:
        self.messages: list[EmailMessage] = []
        self.raw: list[bytes] = []
        self.recipients: list[list[str]] = []
        self.data: deque[str] = deque()
        self.recipient: deque[str] = deque()
        self.logins: list[tuple[str, str]] = []
        options: dict[str, Any] = {}
        if context is not None:
            options = {"ssl_context": context} if implicit else {"tls_context": context, "require_starttls": True}
        if login:
            options |= {
                "authenticator": self._authenticate,
                "auth_required": True,
                "auth_require_tls": not implicit,
            }
        self._controller = _AnyPort(self, hostname="127.0.0.1", port=0, **options)

    def __enter__(self) -> MailStub:
        self._controller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._controller.stop()

    @property
    def port(self) -> int:
        return int(self._controller.port)

    def _authenticate(self, _server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        self.logins.append((data.login.decode(), data.password.decode()))
        return AuthResult(success=self.logins[-1] == (USER, PASSWORD), handled=False)

    async def handle_RCPT(self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any) -> str:
        if self.recipient and (answer := self.recipient.popleft()):
            return answer
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:
        if self.data:
            return self.data.popleft()
        self.raw.append(envelope.content)
        message = message_from_bytes(envelope.content, policy=default)
        assert isinstance(message, EmailMessage)
        self.messages.append(message)
        self.recipients.append(list(envelope.rcpt_tos))
        return "250 taken"
