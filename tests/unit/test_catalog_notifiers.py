"""Notifiers in holdtrue.yaml: their keys depend on their kind, and what is wrong is said without repeating a secret."""

from __future__ import annotations

from datetime import timedelta

import pytest
from jsonschema import Draft202012Validator

from catalogs import SQLITE, accepted, item, the_refusal
from holdtrue.catalog import json_schema
from holdtrue.model import Secret

ONE = item("sql: SELECT 1 AS id FROM t")


def config(notifier: str) -> str:
    return f"{SQLITE}notifiers: {{told: {notifier}}}\n"


def test_an_alertmanager_carries_state_and_is_owed_no_messages() -> None:
    """Semantics 7.6."""
    catalog = accepted(
        ONE,
        f"{SQLITE}notifiers:\n"
        "  cluster: {kind: alertmanager, urls: ['http://am-1:9093', '${AM_2}'], resend_every: 30s, keep_for: 5m}\n"
        "  oncall: {kind: slack, channel: '#x', token: '${T}'}\n",
    )
    assert [one.name for one in catalog.config.messengers] == ["oncall"]
    [cluster] = catalog.config.state_keepers
    assert cluster.option("urls") == (Secret("http://am-1:9093"), Secret("${AM_2}"))
    assert cluster.option("keep_for") == timedelta(minutes=5)


@pytest.mark.parametrize(
    ("notifier", "said"),
    [
        ("{channel: '#x'}", "has no `kind`"),
        ("{kind: alertmanger, urls: ['http://a']}", "must be one of slack, alertmanager"),
        ("{kind: alertmanager}", "has no `urls`"),
        ("{kind: alertmanager, urls: []}", "at least 1"),
        ("{kind: alertmanager, urls: ['am:9093']}", "must be an address"),
        ("{kind: alertmanager, urls: ['http://a?x=1']}", "without a query"),
        ("{kind: alertmanager, urls: ['http://a', 'http://a']}", "twice"),
        ("{kind: alertmanager, urls: ['http://a'], channel: '#x'}", "unknown key"),
        ("{kind: alertmanager, urls: ['http://a'], token: literal}", "literal secret"),
        ("{kind: alertmanager, urls: ['http://a'], token: '${T}', username: u, password: '${P}'}", "exclude"),
        ("{kind: alertmanager, urls: ['http://a'], username: u}", "needs both"),
        ("{kind: alertmanager, urls: ['https://a'], key_file: /k.pem}", "needs its `cert_file`"),
        ("{kind: alertmanager, urls: ['https://a'], ca_file: ca.pem}", "absolute path"),
        ("{kind: alertmanager, urls: ['http://a'], resend_every: 2m, keep_for: 5m}", "three times"),
        ("[slack]", "must be a mapping"),
        ("{kind: webhook, url: 'https://h'}", "has no `secret`"),
        ("{kind: webhook, url: 'https://h', secret: literal}", "literal secret"),
        ("{kind: webhook, url: 'http://h', secret: '${S}'}", "must be https"),
        ("{kind: webhook, url: 'h.example.com', secret: '${S}'}", "must be an address"),
        ("{kind: webhook, url: 'https://u:hunter2@h', secret: '${S}'}", "holds a user"),
        ("{kind: pagerduty}", "has no `routing_key`"),
        ("{kind: pagerduty, routing_key: literal}", "literal secret"),
        ("{kind: email, host: m, from: a@b, to: [a@b]}", "has no `security`"),
        ("{kind: email, host: m, security: ssl, from: a@b, to: [a@b]}", "starttls, tls, none"),
        ("{kind: email, host: m, security: tls, from: 'A <a@b>', to: [a@b]}", "address alone"),
        ("{kind: email, host: m, security: tls, from: a@b, to: []}", "at least 1"),
        ("{kind: email, host: m, security: tls, from: a@b, to: ['a@b\\nBcc: c@d']}", "address alone"),
        ("{kind: email, host: m, security: tls, from: a@b, to: [a@b], username: u}", "needs both"),
        ("{kind: email, host: m, security: none, from: a@b, to: [a@b], username: u, password: '${P}'}", "in the clear"),
    ],
)
def test_what_does_not_go_together_is_refused(notifier: str, said: str) -> None:
    assert said in str(the_refusal(ONE, config(notifier)))


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    """Semantics 1.7."""
    problem = the_refusal(ONE, config("{kind: alertmanager, urls: ['http://user:hunter2@am:9093']}"))
    assert "username" in str(problem)
    assert "hunter2" not in str(problem)


def test_the_schema_knows_each_kind() -> None:
    valid = Draft202012Validator(json_schema("config")).is_valid
    assert valid({"notifiers": {"am": {"kind": "alertmanager", "urls": ["http://a"]}}})
    assert valid({"notifiers": {"chat": {"kind": "slack", "channel": "#x", "token": "${T}"}}})
    assert not valid({"notifiers": {"am": {"kind": "alertmanager", "urls": ["http://a"], "channel": "#x"}}})
    assert valid({"notifiers": {"hooks": {"kind": "webhook", "url": "https://h", "secret": "${S}"}}})
    assert valid({"notifiers": {"pager": {"kind": "pagerduty", "routing_key": "${K}"}}})
    mail = {"kind": "email", "host": "m", "security": "starttls", "from": "a@b.c", "to": ["d@e.f"]}
    assert valid({"notifiers": {"mail": mail}})
    assert not valid({"notifiers": {"mail": {**mail, "security": "maybe"}}})
