"""tells people by e-mail: one thread for each episode, one list for many, over SMTP whose security is said"""

from __future__ import annotations

import contextlib
import smtplib
import socket
import ssl
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Final

from holdtrue.errors import SettingsRefused
from holdtrue.model import Delivered, NotifierConfig, Parcel, Thread, Undelivered
from holdtrue.notifiers import limits
from holdtrue.notifiers.connecting import Line, tls_of
from holdtrue.notifiers.email_list import list_identity, list_of, outage_mail
from holdtrue.notifiers.email_texts import identity, message_of
from holdtrue.notifiers.notifier import MAY_HAVE_ARRIVED, Notifier
from holdtrue.notifiers.options import secret_of, text_of
from holdtrue.notifiers.outages import Outage

TIME_LIMIT: Final = 30.0
PORTS: Final = {"starttls": 587, "tls": 465, "none": 25}

_WHO = "the mail server"


@dataclass(frozen=True, slots=True)
class Server:
    """Where mail is handed over, and how: ``security`` is ``starttls``, ``tls`` or ``none``.

    A login is asked at each message.
    """

    host: str
    port: int
    security: str
    tls: Callable[[], ssl.SSLContext]
    username: Callable[[], str] | None = None
    password: Callable[[], str] | None = None
    time_limit: float = TIME_LIMIT


def build_email(config: NotifierConfig, environ: Mapping[str, str]) -> Notifier:
    """E-mail: ``host``, ``security``, ``from`` and ``to``; ``port``, ``username``, ``password`` and ``ca_file`` if need be.

    Raises:
        SettingsRefused: one of the four is missing, or a secret cannot be read.
    """
    security, host, sender = (text_of(config, key) for key in ("security", "host", "from"))
    to = config.option("to")
    recipients = tuple(str(one) for one in to) if isinstance(to, tuple) else ()
    if security not in PORTS or not host or not sender or not recipients:
        raise SettingsRefused(
            f"notifier {config.name!r} needs `host`, `security`, `from` and `to`",
            remedy=f"security is one of {', '.join(PORTS)}",
        )
    username, password = secret_of(config, "username", environ), secret_of(config, "password", environ)
    if (username is None) != (password is None) or (username is not None and security == "none"):
        raise SettingsRefused(
            f"notifier {config.name!r} has half a login, or would send one in the clear",
            remedy="`username` and `password` go together, and need `security: starttls` or `tls`",
        )
    port = config.option("port")
    server = Server(
        host,
        port if isinstance(port, int) else PORTS[security],
        security,
        tls_of(config.name, text_of(config, "ca_file")),
        username,
        password,
    )
    return Email(config.name, server, sender, recipients)


class Email:
    """Sends each event to all recipients as one message, and many at once as one list."""

    kind = "email"
    edits = False

    def __init__(self, name: str, server: Server, sender: str, to: tuple[str, ...]) -> None:
        """Send from ``sender`` by ``server``."""
        self.name = name
        self._server = server
        self._sender = sender
        self._to = to

    def describe_limits(self) -> str:
        """What e-mail cannot do."""
        return limits.EMAIL

    def deliver(self, parcel: Parcel) -> Delivered | Undelivered:
        """Send the event."""
        root = parcel.thread.reference if parcel.thread is not None else ""
        return self._told(
            [parcel],
            lambda: message_of(parcel, sender=self._sender, to=self._to, root=root),
            Thread("", root or identity(parcel, self._sender)),
        )

    def deliver_group(self, parcels: Sequence[Parcel], unreachable: Collection[str]) -> Delivered | Undelivered:
        """Send one message that lists them all."""
        return self._told(parcels, lambda: list_of(parcels, unreachable, sender=self._sender, to=self._to), None)

    def deliver_outage(self, outage: Outage) -> Delivered | Undelivered:
        """Send what is known of the database now, in the thread of the message about it."""
        root = outage.thread.reference if outage.thread is not None else ""
        return self._told(
            outage.news,
            lambda: outage_mail(outage, sender=self._sender, to=self._to, root=root),
            Thread("", root or list_identity(outage.news, self._sender)),
        )

    def redraw_outage(self, outage: Outage) -> Delivered | Undelivered:
        """Nothing, as `redraw`."""
        return Delivered(outage.thread, "an e-mail cannot be edited")

    def _told(
        self, parcels: Sequence[Parcel], write: Callable[[], EmailMessage], thread: Thread | None
    ) -> Delivered | Undelivered:
        """Tell those of the recipients who have not all of it already."""
        had = set.intersection(*(set(one.message.took) for one in parcels)) if parcels else set()
        left = [one for one in self._to if one not in had]
        try:
            refused = self._send(write(), left) if left else {}
        except smtplib.SMTPRecipientsRefused as problem:
            refused = {one: answer[0] for one, answer in problem.recipients.items()}
            if not had or set(refused) != set(left):
                return _undelivered(problem)
        except SettingsRefused as problem:
            return Undelivered(f"the secret cannot be read: {problem.message}")
        except Exception as problem:  # noqa: BLE001 - the library raises whatever the network does; its text may hold a login
            return _undelivered(problem)
        many = len(self._to)
        put_off = [code for code in refused.values() if code < 500]
        if put_off:
            said = f"{len(put_off)} of {many} recipients were put off ({', '.join(map(str, sorted(set(put_off))))})"
            ended = f", {len(refused) - len(put_off)} refused" if len(refused) > len(put_off) else ""
            took = tuple(sorted({*had, *left} - set(refused)))
            return Undelivered(f"{_WHO}: {said}{ended}; the others have it", took=took)
        note = f"{len(refused)} of {many} recipients were refused" if refused else ""
        return Delivered(thread, note, partly=bool(refused))

    def redraw(self, parcel: Parcel) -> Delivered | Undelivered:
        """Nothing: what was sent stays as it is."""
        return Delivered(parcel.thread, "an e-mail cannot be edited")

    def _send(self, message: EmailMessage, to: Sequence[str]) -> dict[str, int]:
        """Hand it over; which recipients were refused while others were taken, and by which code."""
        server = self._server
        with Line(server.time_limit) as line:
            implicit = server.tls() if server.security == "tls" else None
            client = _Client(line, implicit, server.host, self._sender.rpartition("@")[2])
            try:
                client.open(server.port)
                try:
                    if server.security == "starttls":
                        client.starttls(context=server.tls())
                    if server.username is not None and server.password is not None:
                        client.login(server.username(), server.password())
                except (smtplib.SMTPServerDisconnected, TimeoutError, ConnectionError) as problem:
                    raise _NotConnected from problem
                refused = {one: code for one, (code, _) in client.send_message(message, self._sender, to).items()}
                with contextlib.suppress(smtplib.SMTPException, OSError):
                    client.quit()
                return refused
            finally:
                client.close()


class _NotConnected(Exception):
    """There was no connection, so that nothing was sent."""


class _Client(smtplib.SMTP):
    """Connects by a line, so that a server that hangs or drips is cut off."""

    def __init__(self, line: Line, implicit: ssl.SSLContext | None, host: str, own: str) -> None:
        self._line = line
        self._implicit = implicit
        super().__init__(local_hostname=own, timeout=line.left)
        self._host = host

    def open(self, port: int) -> None:
        """Connect, and hear the greeting.

        Raises:
            smtplib.SMTPConnectError: the greeting was none.
        """
        code, said = self.connect(self._host, port)
        if code != 220:
            raise smtplib.SMTPConnectError(code, said)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:  # noqa: ARG002 - the line knows how long
        def connecting(address: str, seconds: float) -> socket.socket:
            return socket.create_connection((address, port), seconds)

        try:
            made: socket.socket = self._line.connect(host, port, connecting)
            self._line.hold(made)
            made.settimeout(self._line.left)
            return self._implicit.wrap_socket(made, server_hostname=host) if self._implicit is not None else made
        except OSError as problem:
            raise _NotConnected from problem


def _undelivered(problem: Exception) -> Undelivered:
    """Failures by what can be done about them: codes that begin with 4 pass, those with 5 do not."""
    if isinstance(problem, _NotConnected):
        return Undelivered(f"{_WHO} did not answer ({type(problem.__cause__).__name__})")
    if isinstance(problem, smtplib.SMTPRecipientsRefused):
        codes = sorted({code for code, _ in problem.recipients.values()})
        said = ", ".join(str(code) for code in codes)
        return Undelivered(f"{_WHO} refused every recipient ({said})", permanent=all(code >= 500 for code in codes))
    if isinstance(problem, smtplib.SMTPNotSupportedError):
        # Not permanent: somebody in between may hide what the server offers, and that must lose no message.
        return Undelivered(f"{_WHO} does not offer what `security` or the login needs")
    if isinstance(problem, smtplib.SMTPResponseException):
        if isinstance(problem, smtplib.SMTPAuthenticationError):
            return Undelivered(f"{_WHO} refused the login ({problem.smtp_code})", login=True)
        return Undelivered(f"{_WHO} refused it ({problem.smtp_code})", permanent=problem.smtp_code >= 500)
    if isinstance(problem, ssl.SSLError):
        return Undelivered(f"{_WHO} did not answer ({type(problem).__name__})")
    if isinstance(problem, OSError):
        # smtplib's own exceptions are OSErrors too; by now the message may have been handed over.
        return Undelivered(f"{_WHO} did not answer ({type(problem).__name__}); {MAY_HAVE_ARRIVED}")
    return Undelivered(f"unexpected error ({type(problem).__name__})")
