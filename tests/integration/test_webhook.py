"""The webhook: what it is told, its signature, and the addresses that it is never led to."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from holdtrue.cli.app import build_app
from holdtrue.errors import SettingsRefused
from holdtrue.model import Delivered, NotifierConfig, Reason, Sample, Secret, Undelivered
from holdtrue.notifiers import Notifier, body_schema, build_notifier
from holdtrue.notifiers.connecting import tls_of
from holdtrue.notifiers.posting import Posting
from holdtrue.notifiers.webhook import Webhook
from holdtrue.notifiers.webhook_body import body_of, group_body_of, sign
from scenes.told import EPISODE, NOW, RESOLVED, notifier_at, parcel
from servers.certificates import Authority
from servers.hooks import SCHEMA, SECRET, HookStub, Reply

ROOT = Path(__file__).parents[2]


@pytest.fixture
def hook() -> Iterator[HookStub]:
    with HookStub() as stub:
        yield stub
        assert stub.problems == []


def webhook_of(hook: HookStub, name: str = "told") -> Notifier:
    return notifier_at("webhook", hook.server.server_address[1], name)


def guarded(url: str, **options: Any) -> Webhook:
    """A guarded one, past the refusal at load: what it connects to is checked again at each message."""
    return Webhook("told", lambda: url, lambda: SECRET, Posting(guarded=True, **options))


def test_each_event_is_a_signed_post_under_the_published_schema(hook: HookStub) -> None:
    """The stub checks schema, signature and idempotency key of every post."""
    notifier = webhook_of(hook)
    sample = Sample(("id", "mail"), (("dsp_9", "h:3fa9c1d2"),), novelties=("new",), masked=frozenset({"mail"}))
    assert notifier.deliver(parcel(sample=sample)) == Delivered()
    assert notifier.deliver(parcel(RESOLVED, Reason.RESOLVED)) == Delivered()
    first, second = (post.body for post in hook.posts)
    assert first["sample"]["rows"] == [{"novelty": "new", "values": ["dsp_9", "h:3fa9c1d2"]}]
    assert first["sample"]["hashed_columns"] == ["mail"]
    assert (first["reason"], second["reason"]) == ("fired", "resolved")
    assert second["alert"]["ending"] == "resolved"
    assert second["sample"] is None
    assert hook.paths[0] == "/hooks/path-of-the-hook?k=v"


def test_many_alerts_are_one_body_with_each_as_it_would_be_alone() -> None:
    found = [parcel(replace(EPISODE, id=number)) for number in range(3)]
    body = json.loads(group_body_of(found, ()))
    assert body["alerts"] == [json.loads(body_of(one)) for one in found]
    assert len({one["key"] for one in (body, *body["alerts"])}) == 4
    assert body["key"] == json.loads(group_body_of(found[::-1]))["key"]
    assert body["key"] != json.loads(group_body_of(found[:2]))["key"]


def test_the_key_is_the_episode_the_number_and_the_notifier(hook: HookStub) -> None:
    """Semantics 7.3: equal for each attempt, different for every other message."""
    opened = f"{EPISODE.opened_at.timestamp():.6f}"
    hook.answers.append(Reply(500, after=True))
    for name in ("told", "told", "other"):
        webhook_of(hook, name).deliver(parcel(notifier=name))
    webhook_of(hook).deliver(parcel(RESOLVED, Reason.RESOLVED))
    assert [post.body["key"] for post in hook.posts] == [
        f"12-{opened}-1-told",
        f"12-{opened}-1-told",
        f"12-{opened}-1-other",
        f"12-{opened}-2-told",
    ]


def test_two_stores_share_no_key(hook: HookStub) -> None:
    """Both begin with alert 1: a receiver that acts once for each key, as it is told to, must not take one for the other."""
    later = replace(EPISODE, opened_at=EPISODE.opened_at + timedelta(microseconds=1))
    for episode in (EPISODE, later):
        assert webhook_of(hook).deliver(parcel(episode)) == Delivered()
    assert len({post.body["key"] for post in hook.posts}) == 2
    groups = [[parcel(replace(one, id=number)) for number in (1, 2)] for one in (EPISODE, later)]
    assert len({json.loads(group_body_of(group))["key"] for group in groups}) == 2


def test_a_body_keeps_its_limit_and_counts_what_it_leaves_out(hook: HookStub) -> None:
    sample = Sample(tuple(f"c{number}" for number in range(60)), (tuple("x" * 5_000 for _ in range(60)),) * 50)
    assert webhook_of(hook).deliver(parcel(replace(EPISODE, count=50), sample=sample)) == Delivered()
    [post] = hook.posts
    assert len(post.raw) <= 64 * 1024
    assert len(post.body["sample"]["rows"]) + post.body["sample"]["more_rows"] == 50
    assert post.body["sample"]["more_columns"] == 30


def test_the_published_schema_is_the_one_that_the_command_prints_and_refuses_what_is_none() -> None:
    answer = CliRunner().invoke(build_app("json-schema"), ["json-schema", "webhook"])
    assert json.loads(answer.stdout) == SCHEMA == json.loads(json.dumps(body_schema()))
    Draft202012Validator.check_schema(SCHEMA)
    body = json.loads(body_of(parcel()))
    valid = Draft202012Validator(SCHEMA).is_valid
    assert valid(body)
    assert valid({**body, "added_later": 1})
    assert not valid({**body, "version": 2})
    group = json.loads(group_body_of([parcel(), parcel(RESOLVED)]))
    assert valid(group)
    assert not valid({**group, "alerts": [body, {**body, "reason": "pigeon"}]})
    assert not valid({**body, "reason": "pigeon"})
    assert not valid({key: value for key, value in body.items() if key != "alert"})


def test_the_documented_body_is_one() -> None:
    text = (ROOT / "docs" / "alerts.md").read_text()
    example = json.loads(re.findall(r"```json\n(\{\"version\".*?)```", text, re.DOTALL)[0])
    Draft202012Validator(SCHEMA).validate(example)
    assert set(example) == set(json.loads(body_of(parcel())))


def test_the_documented_verification_accepts_what_is_ours_and_nothing_else() -> None:
    """The example of docs/alerts.md, as it is written there."""
    text = (ROOT / "docs" / "alerts.md").read_text()
    [example] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    place: dict[str, Any] = {}
    exec(compile(example, "docs/alerts.md", "exec"), place)  # noqa: S102 - our own page
    verify, body, now = place["is_from_holdtrue"], b'{"version":1}', NOW.fromtimestamp(time.time(), NOW.tzinfo)
    good = sign(body, SECRET, now)
    assert verify(good, body, SECRET)
    assert not verify(good, body + b" ", SECRET)
    assert not verify(good, body, "another secret")
    assert not verify(sign(body, SECRET, now - timedelta(hours=1)), body, SECRET)
    assert not verify(sign(body, SECRET, now + timedelta(hours=1)), body, SECRET)
    late = good.replace(f"t={int(now.timestamp())}", f"t={int(now.timestamp()) + 1}")
    assert not verify(late, body, SECRET)
    for broken in ("", "t=,v1=", "v1=abc", "t=1e3,v1=x", f"t={int(now.timestamp())},v1=é", "=,=,="):
        assert not verify(broken, body, SECRET)
    assert hmac.new(b"k", b"1.x", hashlib.sha256).hexdigest() == sign(b"x", "k", NOW.fromtimestamp(1, NOW.tzinfo))[7:]


@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://hooks.example.com/",
            "https://127.0.0.1/",
            "https://localhost/",
            "https://[::1]/",
            "https://10.0.0.1/",
        ),
        *("https://169.254.169.254/latest", "https://[::ffff:127.0.0.1]/", "https://user:pw@hooks.example.com/"),
        *("ftp://hooks.example.com/", "hooks.example.com", "https://"),
    ],
)
def test_an_address_that_may_not_be_asked_is_refused_at_load_and_not_repeated(url: str) -> None:
    options = (("url", Secret("${URL}")), ("secret", Secret("${S}")))
    with pytest.raises(SettingsRefused) as refused:
        build_notifier(NotifierConfig("told", "webhook", options), {"URL": url, "S": "s"})
    assert url not in refused.value.message
    assert "pw" not in str(refused.value)


@pytest.mark.parametrize("name", ["localhost", "127.1", "2130706433", "0x7f000001", "[::1]", "[::ffff:7f00:1]"])
def test_whatever_leads_inside_is_not_connected_to(hook: HookStub, name: str) -> None:
    """Every way to write this machine; nothing reaches it, and the message stays owed."""
    port = hook.server.server_address[1]
    result = guarded(f"http://{name}:{port}/").deliver(parcel())
    assert isinstance(result, Undelivered)
    assert not result.permanent
    assert "internal" in result.sentence or "did not answer" in result.sentence
    assert hook.calls == 0


def test_a_name_with_one_internal_address_among_public_ones_is_not_asked(hook: HookStub) -> None:
    port = hook.server.server_address[1]
    notifier = guarded(f"http://hooks.example.com:{port}/", resolving=lambda _h, _p: ("93.184.215.14", "127.0.0.1"))
    result = notifier.deliver(parcel())
    assert isinstance(result, Undelivered)
    assert "internal" in result.sentence
    assert "may have arrived" not in result.sentence
    assert hook.calls == 0


def test_the_address_that_was_checked_is_the_one_that_is_connected_to(
    hook: HookStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that leads elsewhere at its second asking (DNS rebinding) is asked once, and what is connected to is a number."""
    answers = iter([("93.184.215.14",), ("127.0.0.1",)])
    connected: list[str] = []

    def connect(address: tuple[str, int], *_: Any, **__: Any) -> socket.socket:
        connected.append(address[0])
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", connect)
    notifier = guarded("http://hooks.example.com/", resolving=lambda _h, _p: next(answers))
    assert isinstance(notifier.deliver(parcel()), Undelivered)
    assert connected == ["93.184.215.14"]
    assert "internal" in str(notifier.deliver(parcel()))
    assert connected == ["93.184.215.14"]


def test_a_guarded_webhook_goes_through_no_proxy_and_an_allowed_one_does(
    hook: HookStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where the connection is made can its address be checked."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{hook.server.server_address[1]}")
    url = "http://hooks.example.invalid/path"
    assert isinstance(guarded(url, resolving=lambda _h, _p: ("127.0.0.1",)).deliver(parcel()), Undelivered)
    assert hook.calls == 0
    assert Webhook("told", lambda: url, lambda: SECRET, Posting()).deliver(parcel()) == Delivered()
    assert hook.paths == [url]


def test_a_certificate_is_checked_by_the_authority_that_is_named(hook: HookStub, tmp_path: Path) -> None:
    files = Authority().server(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    hook.server.socket = context.wrap_socket(hook.server.socket, server_side=True)
    url = hook.url.replace("http:", "https:").replace("127.0.0.1", "localhost")
    result = Webhook("told", lambda: url, lambda: SECRET, Posting()).deliver(parcel())
    assert result == Undelivered("the webhook: it did not answer (SSLCertVerificationError)")
    known = Posting(tls=tls_of("told", str(files.authority)))
    assert Webhook("told", lambda: url, lambda: SECRET, known).deliver(parcel()) == Delivered()
    other = url.replace("localhost", "127.0.0.1")
    assert isinstance(Webhook("told", lambda: other, lambda: SECRET, known).deliver(parcel()), Undelivered)


@pytest.mark.parametrize("status", [301, 302, 307, 400, 404, 410, 413])
def test_an_answer_that_is_no_yes_fails_for_good(hook: HookStub, status: int) -> None:
    hook.answers.append(Reply(status, {"Location": "/elsewhere"}))
    result = webhook_of(hook).deliver(parcel())
    assert isinstance(result, Undelivered)
    assert result.permanent
    assert str(status) in result.sentence


def test_a_pause_may_be_asked_for_as_a_date(hook: HookStub) -> None:
    from email.utils import format_datetime

    until = NOW.fromtimestamp(time.time() + 120, NOW.tzinfo)
    hook.answers.append(Reply(503, {"Retry-After": format_datetime(until, usegmt=True)}))
    hook.answers.append(Reply(503, {"Retry-After": "soon"}))
    result = webhook_of(hook).deliver(parcel())
    assert isinstance(result, Undelivered)
    assert result.retry_after is not None
    assert 60 < result.retry_after <= 120
    assert webhook_of(hook).deliver(parcel()) == Undelivered("the webhook answered 503")
