"""`holdtrue notify test` as a person meets it: a real process, each kind of notifier, and what arrives (semantics 1.7)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from servers.hooks import ROUTING_KEY, SECRET, HookStub, PagerDutyStub, Reply
from servers.mail import MailStub
from servers.service import holdtrue
from servers.slack import TOKEN, SlackStub

ENVIRON = {"SLACK_TOKEN": TOKEN, "SIGN": SECRET, "KEY": ROUTING_KEY, "NO_COLOR": "1"}


def write(folder: Path, **notifiers: dict[str, Any]) -> None:
    database = {"replicas": [{"name": "r1", "url": "sqlite:///nowhere.db"}], "allow_primary": True}
    (folder / "holdtrue.yaml").write_text(json.dumps({"databases": {"shop": database}, "notifiers": notifiers}))


def hook_at(url: str) -> dict[str, Any]:
    return {"kind": "webhook", "url": url, "secret": "${SIGN}", "allow_internal": True}


def test_each_kind_is_told_a_marked_test_alert_and_its_end(tmp_path: Path) -> None:
    with SlackStub() as slack, HookStub() as hook, PagerDutyStub() as pager, MailStub() as mail:
        write(
            tmp_path,
            chat={"kind": "slack", "channel": "#x", "token": "${SLACK_TOKEN}", "api_url": slack.base_url},
            hooks=hook_at(hook.url),
            pager={"kind": "pagerduty", "routing_key": "${KEY}", "api_url": pager.url},
            mail={
                "kind": "email",
                "host": "127.0.0.1",
                "port": mail.port,
                "security": "none",
                "from": "holdtrue@example.com",
                "to": ["a@example.com"],
            },
        )
        listed = holdtrue("notify", "list", cwd=tmp_path)
        assert (listed.returncode, listed.stderr) == (0, "")
        assert (
            re.sub(r"\n  .*", " …", listed.stdout)
            == "chat (slack)\nhooks (webhook) …\npager (pagerduty) …\nmail (email) …\n"
        )
        said = {}
        for name in ("chat", "hooks", "pager", "mail"):
            done = holdtrue("notify", "test", name, cwd=tmp_path, env=ENVIRON)
            assert (done.returncode, done.stderr) == (0, ""), done.stderr
            said[name] = done.stdout
        [message] = slack.conversation()
        assert "Test message, nothing is violated (Holds again" in message.seen
        assert [post.body["test"] for post in hook.posts] == [True, True]
        assert list(pager.incidents().values()) == [["trigger", "resolve"]]
        assert [one["Subject"] for one in mail.messages] == [
            "TEST [info] holdtrue_notify_test on no-database (alert 0)",
            "Re: TEST [info] holdtrue_notify_test on no-database (alert 0)",
        ]
        assert (slack.problems, hook.problems, pager.problems) == ([], [], [])
    assert said["chat"] == "chat (slack): told\n"
    assert "maybe twice" in said["hooks"]
    assert "pages once" in said["pager"]
    assert "cannot edit" in said["mail"]
    assert not (tmp_path / "holdtrue.db").exists()


def test_a_test_alert_ends_by_itself_at_an_alertmanager(tmp_path: Path) -> None:
    class Members(HookStub):
        def problems_of(self, post: Any) -> list[str]:
            return []

    with Members() as member:
        write(tmp_path, am={"kind": "alertmanager", "urls": [member.url.partition("/hooks")[0]]})
        done = holdtrue("notify", "test", "am", cwd=tmp_path, env=ENVIRON)
        assert (done.returncode, done.stderr) == (0, "")
        [post] = member.posts
    [alert] = list(post.body)
    assert alert["labels"] == {"alertname": "HoldtrueTest", "owner": "holdtrue", "severity": "info"}
    assert alert["startsAt"] < alert["endsAt"]
    assert "ends by itself" in done.stdout


def test_what_is_not_told_ends_with_4_and_the_reason_in_our_words(tmp_path: Path) -> None:
    with HookStub() as hook:
        write(tmp_path, hooks=hook_at(hook.url))
        hook.answers.extend([Reply(401), Reply(200), Reply(503)])
        refused = holdtrue("notify", "test", "hooks", cwd=tmp_path, env=ENVIRON)
        half = holdtrue("notify", "test", "hooks", cwd=tmp_path, env=ENVIRON)
    gone = holdtrue("notify", "test", "hooks", cwd=tmp_path, env=ENVIRON)
    assert [one.returncode for one in (refused, half, gone)] == [4, 4, 4]
    assert "not told: the webhook refused the login (401)" in refused.stderr
    assert "not its end: the webhook answered 503" in half.stderr
    assert "did not answer (ConnectionRefusedError)" in gone.stderr
    assert all(
        SECRET not in one.stderr + one.stdout and "path-of-the-hook" not in one.stderr for one in (refused, gone)
    )


def test_a_name_or_a_secret_that_is_not_there_ends_with_2(tmp_path: Path) -> None:
    write(tmp_path, hooks=hook_at("https://hooks.example.com/"))
    unknown = holdtrue("notify", "test", "pager", cwd=tmp_path, env=ENVIRON)
    assert unknown.returncode == 2
    assert "hooks" in unknown.stderr
    secret = holdtrue("notify", "test", "hooks", cwd=tmp_path, env={})
    assert secret.returncode == 2
    said = "error: `secret` of notifier 'hooks' cannot be read: the environment variable SIGN is not set"
    assert re.search(rf"^holdtrue\.yaml:1:\d+: {re.escape(said)}$", secret.stderr, re.MULTILINE)
