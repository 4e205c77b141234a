"""E-mail: one thread for each episode, over connections whose security is said (stub: a real SMTP server)."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import replace
from email.message import EmailMessage
from html.parser import HTMLParser
from pathlib import Path

import pytest

from holdtrue.errors import SettingsRefused
from holdtrue.model import (
    Delivered,
    MessageState,
    NotifierConfig,
    Option,
    Outcome,
    Reason,
    Sample,
    Secret,
    Undelivered,
)
from holdtrue.notifiers import Gathering, Notifier, build_notifier
from scenes.told import EPISODE, RESOLVED, parcel
from servers.certificates import Authority, Files
from servers.mail import PASSWORD, USER, MailStub
from telling import Service

LOGIN: Mapping[str, Option] = {"username": Secret("${U}"), "password": Secret("${P}")}


@pytest.fixture
def mail() -> Iterator[MailStub]:
    with MailStub() as stub:
        yield stub


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Authority().server(tmp_path_factory.mktemp("mail"))


def email_of(mail: MailStub, **more: Option) -> Notifier:
    options: dict[str, Option] = {
        "host": "127.0.0.1",
        "port": mail.port,
        "security": "none",
        "from": "holdtrue@example.com",
        "to": ("a@example.com", "b@example.com"),
    }
    environ = {"U": USER, "P": PASSWORD}
    return build_notifier(NotifierConfig("told", "email", tuple({**options, **more}.items())), environ)


def context_of(files: Files) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    return context


def bodies_of(message: EmailMessage) -> tuple[str, str]:
    plain, html = message.get_body(("plain",)), message.get_body(("html",))
    assert isinstance(plain, EmailMessage)
    assert isinstance(html, EmailMessage)
    return plain.get_content(), html.get_content()


def test_many_alerts_are_one_mail_with_a_list_and_a_repeat_has_the_same_identity(mail: MailStub) -> None:
    """Semantics 7.3, 7.4; the two bodies say the same, and nothing in them is loaded."""
    notifier = email_of(mail)
    assert isinstance(notifier, Gathering)
    name = "<img src=x onerror=alert(1)>"
    found = [parcel(replace(EPISODE, id=1, invariant=name)), parcel(RESOLVED, Reason.RESOLVED, page_url="javascript:x")]
    for _ in range(2):
        assert notifier.deliver_group(found, ()) == Delivered()
    first, again = mail.messages
    assert first["Message-ID"] == again["Message-ID"]
    assert first["Subject"].startswith("🔴 1 violated, 1 ended: ")
    assert first["To"] == "a@example.com, b@example.com"
    assert first["Auto-Submitted"] == "auto-generated"
    plain, html = bodies_of(first)
    assert all("Fired" in body and "Resolved" in body and "alerts/12" in body for body in (plain, html))
    assert "javascript" not in plain + html
    assert "<img" not in html


def test_an_episode_is_one_thread_to_everybody(mail: MailStub) -> None:
    notifier = email_of(mail)
    first = notifier.deliver(parcel())
    assert isinstance(first, Delivered)
    worse = replace(EPISODE, count=10, events=2)
    second = notifier.deliver(parcel(worse, Reason.WORSENED, thread=first.thread))
    assert isinstance(second, Delivered)
    assert second.thread == first.thread
    notifier.deliver(parcel(replace(RESOLVED, events=3), Reason.RESOLVED, thread=second.thread))
    root, *later = mail.messages
    assert root["References"] is None
    for message in later:
        assert message["In-Reply-To"] == message["References"] == root["Message-ID"]
        assert message["Subject"] == f"Re: {root['Subject']}"
    assert len({message["Message-ID"] for message in mail.messages}) == 3
    assert mail.recipients == [["a@example.com", "b@example.com"]] * 3
    assert {message["Auto-Submitted"] for message in mail.messages} == {"auto-generated"}
    assert "Holds again after 1h" in bodies_of(later[-1])[1]


def test_a_repeat_has_the_same_identity(mail: MailStub) -> None:
    """Semantics 7.3: mail programs show two messages of one identity once."""
    notifier = email_of(mail)
    notifier.deliver(parcel())
    notifier.deliver(parcel())
    first, second = mail.messages
    assert first["Message-ID"] == second["Message-ID"]


class Seen(HTMLParser):
    """What a browser would make of it."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str | None] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value for name, value in attrs if name in ("href", "src", "style", "onclick")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_nothing_in_it_becomes_a_header_a_tag_or_a_link(mail: MailStub) -> None:
    """House: names, texts and values are untrusted."""
    evil = "x\r\nBcc: all@example.com\r\n\r\n<script>alert(1)</script><img src=http://e.example/>\u202e"
    told = parcel(
        replace(EPISODE, invariant=evil, database=evil, owner=evil, severity=evil),
        detail=evil,
        description=evil,
        health_sentence=evil,
        sample=Sample((evil,), ((evil,),)),
        page_url="javascript:alert(1)",
        runbook_url='https://example.com/"onclick="x',
        links=((evil, "https://example.com/?a=1&b=2"), ("x", "http://example.com/ y")),
    )
    assert isinstance(email_of(mail).deliver(told), Delivered)
    [message] = mail.messages
    assert mail.recipients == [["a@example.com", "b@example.com"]]
    assert message["Bcc"] is None
    assert len(message["Subject"]) < 400
    assert set(message.keys()) == {
        *("Subject", "From", "To", "Date", "Message-ID", "Auto-Submitted", "X-Holdtrue-Reason"),
        *("MIME-Version", "Content-Type", "X-Peer", "X-MailFrom", "X-RcptTo"),
    } - {"X-Peer", "X-MailFrom", "X-RcptTo"}
    plain, html = bodies_of(message)
    assert not [line for line in plain.splitlines() if line.startswith("Bcc")]
    seen = Seen()
    seen.feed(html)
    assert seen.tags <= {"html", "body", "h2", "p", "b", "table", "tr", "th", "td", "pre", "a", "code", "small"}
    assert seen.links == ['https://example.com/"onclick="x', "https://example.com/?a=1&b=2"]
    assert "<script>alert(1)</script>" in seen.text
    assert "\u202e" not in plain + html
    assert all(line.isascii() and len(line) < 999 for line in mail.raw[0].decode("ascii").splitlines())


def test_a_login_travels_over_starttls_and_the_certificate_is_checked(files: Files) -> None:
    with MailStub(context_of(files), login=True) as mail:
        known = email_of(mail, host="localhost", security="starttls", ca_file=str(files.authority), **LOGIN)
        assert isinstance(known.deliver(parcel()), Delivered)
        assert mail.logins == [(USER, PASSWORD)]
        unknown = email_of(mail, host="localhost", security="starttls", **LOGIN)
        result = unknown.deliver(parcel())
        assert result == Undelivered("the mail server did not answer (SSLCertVerificationError)")
        assert len(mail.logins) == 1
        assert len(mail.messages) == 1


def test_tls_from_the_first_byte_works_too(files: Files) -> None:
    with MailStub(context_of(files), implicit=True) as mail:
        notifier = email_of(mail, host="localhost", security="tls", ca_file=str(files.authority))
        assert isinstance(notifier.deliver(parcel()), Delivered)
        assert isinstance(email_of(mail, host="localhost", security="tls").deliver(parcel()), Undelivered)
        assert len(mail.messages) == 1


def test_a_server_without_starttls_is_told_nothing(mail: MailStub) -> None:
    """Nothing falls back: somebody in between may have hidden it. The message stays owed."""
    result = email_of(mail, security="starttls", **LOGIN).deliver(parcel())
    assert isinstance(result, Undelivered)
    assert not result.permanent
    assert mail.messages == []
    assert mail.logins == []


def test_a_login_that_is_refused_fails_for_good_and_is_not_repeated(files: Files) -> None:
    with MailStub(context_of(files), login=True) as mail:
        options = {**LOGIN, "password": Secret("${U}")}
        notifier = email_of(mail, host="localhost", security="starttls", ca_file=str(files.authority), **options)
        result = notifier.deliver(parcel())
    assert result == Undelivered("the mail server refused the login (535)", login=True)


def test_recipients_that_are_refused_are_counted_and_the_others_are_told(mail: MailStub) -> None:
    notifier = email_of(mail)
    mail.recipient.extend(["", "550 unknown"])
    result = notifier.deliver(parcel())
    assert isinstance(result, Delivered)
    assert (result.note, result.partly) == ("1 of 2 recipients were refused", True)
    assert mail.recipients == [["a@example.com"]]
    mail.recipient.extend(["550 unknown", "450 busy"])
    mixed = notifier.deliver(parcel())
    assert mixed == Undelivered("the mail server refused every recipient (450, 550)")
    mail.recipient.extend(["550 unknown", "550 unknown"])
    assert notifier.deliver(parcel()) == Undelivered("the mail server refused every recipient (550)", permanent=True)


def test_whom_the_server_put_off_is_told_later_and_the_others_are_not_told_again(
    mail: MailStub, tmp_path: Path
) -> None:
    """Semantics 7.3: a greylisted address is one that nobody has told yet; who took it outlives the process."""
    service = Service(tmp_path, ("one_refund",), {"told": email_of(mail)})
    try:
        service.run()
        mail.recipient.extend(["450 later", ""])
        for answers in ((), ("421 later still",), ()):
            mail.recipient.extend(answers)
            delivery = service.delivery()
            assert delivery.round() == 1
            assert delivery.wait_until_idle(20)
            [message] = service.store.alerts.get(1).messages
            if len(mail.messages) == 1:
                assert service.states() == ["fired pending"]
            service.clock.forward(60)
        assert mail.recipients == [["b@example.com"], ["a@example.com"]]
        assert mail.messages[0]["Message-ID"] == mail.messages[1]["Message-ID"]
        assert "may be a repeat" not in bodies_of(mail.messages[1])[0]
        assert (message.state, message.attempts, message.problem) == (MessageState.SENT, 3, "")
        service.run(outcome=Outcome.HELD)
        delivery = service.delivery()
        delivery.round()
        assert delivery.wait_until_idle(20)
        assert mail.recipients[2] == ["a@example.com", "b@example.com"]
    finally:
        service.close()


def test_who_refuses_for_good_after_others_took_it_is_counted_and_seen(mail: MailStub, tmp_path: Path) -> None:
    """It is sent, and not to everybody: no later attempt hides that."""
    service = Service(tmp_path, ("one_refund",), {"told": email_of(mail)})
    try:
        service.run()
        delivery = service.delivery()
        mail.recipient.extend(["450 later", ""])
        for answers in ((), ("550 unknown",)):
            mail.recipient.extend(answers)
            assert delivery.round() == 1
            assert delivery.wait_until_idle(20)
            service.clock.forward(60)
        [message] = service.store.alerts.get(1).messages
        assert (message.state, message.problem) == (MessageState.SENT, "1 of 2 recipients were refused")
        assert dict(delivery.outcomes) == {("told", "retried"): 1, ("told", "partly"): 1}
        assert mail.recipients == [["b@example.com"]]
    finally:
        service.close()


def test_a_list_goes_to_everybody_who_has_not_all_of_it(mail: MailStub) -> None:
    """What is put off together may be sent together with what others have not seen."""
    notifier = email_of(mail)
    assert isinstance(notifier, Gathering)
    one, other = parcel(replace(EPISODE, id=1)), parcel(replace(EPISODE, id=2))
    mail.recipient.extend(["450 later", ""])
    put_off = notifier.deliver_group([one, other], ())
    said = "1 of 2 recipients were put off (450); the others have it"
    assert put_off == Undelivered(f"the mail server: {said}", took=("b@example.com",))
    has = replace(one, message=replace(one.message, took=("b@example.com",)))
    assert notifier.deliver_group([has, other], ()) == Delivered()
    assert notifier.deliver_group([has, has], ()) == Delivered()
    assert mail.recipients == [["b@example.com"], ["a@example.com", "b@example.com"], ["a@example.com"]]
    everybody = replace(one, message=replace(one.message, took=("b@example.com", "a@example.com")))
    assert isinstance(notifier.deliver(everybody), Delivered)
    assert len(mail.messages) == 3


@pytest.mark.parametrize(
    "options",
    [
        {"security": "maybe"},
        {"to": ()},
        {"host": ""},
        {"username": Secret("${U}")},
        {"security": "none", **LOGIN},
        {"ca_file": "/nowhere/ca.pem"},
    ],
)
def test_what_cannot_work_is_refused_at_load(mail: MailStub, options: Mapping[str, Option], tmp_path: Path) -> None:
    with pytest.raises(SettingsRefused):
        email_of(mail, **options)
