"""What a process is told: precedence, secrets, refusals, and that every setting is documented."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.errors import SettingsRefused
from holdtrue.settings import (
    PREFIX,
    SECRETS,
    Settings,
    environment,
    line_that_makes_a_secret,
    load_settings,
    show_default,
)

ROOT = Path(__file__).parents[2]
SECRET = "a-ledger-secret-of-some-length"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "holdtrue.yaml"


def test_flags_win_over_the_environment_and_the_environment_over_the_env_file(config: Path) -> None:
    (config.parent / ".env").write_text("HOLDTRUE_GRACE=1s\nHOLDTRUE_TICK=1s\nHOLDTRUE_LEASE_TTL=1s\n")
    settings = load_settings(
        config, {"HOLDTRUE_TICK": "2s", "HOLDTRUE_LEASE_TTL": "2s"}, lease_ttl=timedelta(seconds=3), listen=None
    )
    assert (settings.grace, settings.tick, settings.lease_ttl) == tuple(timedelta(seconds=n) for n in (1, 2, 3))


def test_the_process_environment_is_not_read_behind_the_given_one(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDTRUE_LISTEN", "10.0.0.1:1")
    monkeypatch.setenv("HOLDTRUE_TOKEN", "from-the-process")
    settings = load_settings(config, {})
    assert settings.listen == "127.0.0.1:8080"
    assert settings.token is None


def test_the_env_file_lies_beside_the_config_wherever_we_are(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = config.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ".env").write_text("HOLDTRUE_INSTANCE=wrong\n")
    (config.parent / ".env").write_text("HOLDTRUE_INSTANCE=right\n")
    monkeypatch.chdir(elsewhere)
    assert load_settings(config, {}).instance == "right"
    assert load_settings(None, {"HOLDTRUE_CONFIG": str(config)}).instance == "right"


def test_an_env_file_is_taken_as_it_is_written(config: Path) -> None:
    """A secret with a dollar in it is no reference to another variable."""
    (config.parent / ".env").write_text("HOLDTRUE_TOKEN='pa${HOME}ss'\nOTHER=kept\n")
    settings = load_settings(config, {"HOME": "/root"})
    assert settings.token is not None
    assert settings.token.get_secret_value() == "pa${HOME}ss"
    assert environment(config, {"OTHER": "over"})["OTHER"] == "over"


def test_an_empty_variable_is_as_good_as_none(config: Path) -> None:
    """Compose and charts pass what is not set as an empty text."""
    settings = load_settings(config, {"HOLDTRUE_TOKEN": "", "HOLDTRUE_GRACE": "", "HOLDTRUE_LEDGER_SECRET": ""})
    assert settings.token is None
    assert settings.grace == timedelta(seconds=10)


@pytest.mark.parametrize("field", SECRETS)
def test_a_secret_can_come_from_a_file(field: str, config: Path, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    settings = load_settings(config, {f"{PREFIX}{field.upper()}_FILE": str(file)})
    assert getattr(settings, field).get_secret_value() == SECRET


@pytest.mark.parametrize("field", SECRETS)
def test_a_secret_by_value_and_by_file_is_refused(field: str, config: Path, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(SECRET)
    name = f"{PREFIX}{field.upper()}"
    with pytest.raises(SettingsRefused, match=f"{name}_FILE") as refused:
        load_settings(config, {name: SECRET, f"{name}_FILE": str(file)})
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff\xfe"])
def test_a_secret_file_that_holds_none_is_refused(content: bytes | None, config: Path, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsRefused, match="HOLDTRUE_TOKEN_FILE"):
        load_settings(config, {"HOLDTRUE_TOKEN_FILE": str(file)})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOLDTRUE_LISTEN", "8080"),
        ("HOLDTRUE_LISTEN", "host:"),
        ("HOLDTRUE_LISTEN", ":8080"),
        ("HOLDTRUE_LISTEN", "127.0.0.1:99999"),
        ("HOLDTRUE_LISTEN", "127.0.0.1:٨٠"),
        ("HOLDTRUE_GRACE", "10"),
        ("HOLDTRUE_GRACE", "0s"),
        ("HOLDTRUE_LOG_FORMAT", "xml"),
        ("HOLDTRUE_LOG_LEVEL", "loud"),
        ("HOLDTRUE_URL", "holdtrue.internal"),
        ("HOLDTRUE_LEDGER_SECRET", "short"),
        ("HOLDTRUE_ALLOW_OPEN", "perhaps"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name_and_never_shown(name: str, value: str, config: Path) -> None:
    with pytest.raises(SettingsRefused, match=name) as refused:
        load_settings(config, {name: value})
    if name == "HOLDTRUE_LEDGER_SECRET":
        assert "short" not in str(refused.value)
        assert refused.value.__cause__ is None
        assert refused.value.__suppress_context__


def test_a_wrong_flag_is_refused_as_a_flag(config: Path) -> None:
    with pytest.raises(SettingsRefused, match="--listen"):
        load_settings(config, {}, listen="nowhere")


@given(st.text("abcdefgh", min_size=1))
def test_no_secret_is_in_the_text_of_the_settings(tail: str) -> None:
    secret = f"MARKER-of-a-secret-{tail}"
    settings = load_settings(
        Path("/nowhere/holdtrue.yaml"), {"HOLDTRUE_LEDGER_SECRET": secret, "HOLDTRUE_TOKEN": secret}
    )
    assert "MARKER" not in repr(settings) + str(settings) + settings.model_dump_json()


def test_serving_needs_a_ledger_secret_and_says_how_to_make_one(config: Path) -> None:
    """Semantics 4.2: the remedy is a line that makes one; it shows no secret."""
    with pytest.raises(SettingsRefused) as refused:
        load_settings(config, {}).ledger_key()
    assert line_that_makes_a_secret(config) in refused.value.remedy
    assert load_settings(config, {"HOLDTRUE_LEDGER_SECRET": SECRET}).ledger_key() == SECRET.encode()


@pytest.mark.parametrize("listen", ["0.0.0.0:8080", "[::]:8080", "10.1.2.3:80", "holdtrue.internal:80"])
def test_listening_beyond_this_machine_needs_a_token_or_a_word(listen: str, config: Path) -> None:
    """Design 11: any other address needs access configured or an explicit flag."""
    with pytest.raises(SettingsRefused, match="without a token"):
        load_settings(config, {}, listen=listen).check_listen()
    load_settings(config, {"HOLDTRUE_TOKEN": "t" * 20}, listen=listen).check_listen()
    load_settings(config, {}, listen=listen, allow_open=True).check_listen()


@pytest.mark.parametrize(
    ("listen", "host", "port"),
    [("127.0.0.1:8080", "127.0.0.1", 8080), ("localhost:0", "localhost", 0), ("[::1]:81", "::1", 81)],
)
def test_loopback_is_open_by_default(listen: str, host: str, port: int, config: Path) -> None:
    settings = load_settings(config, {}, listen=listen)
    settings.check_listen()
    assert (settings.host, settings.port) == (host, port)


def test_two_processes_have_two_names(config: Path) -> None:
    assert load_settings(config, {}).instance != load_settings(config, {}).instance


def test_every_setting_is_documented_with_its_default_and_meaning() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    for name, field in Settings.model_fields.items():
        lines = [line for line in page.splitlines() if f"`{PREFIX}{name.upper()}`" in line]
        assert lines, f"{PREFIX}{name.upper()} is not in docs/settings.md"
        assert str(field.description) in lines[0], name
        default = show_default(name)
        assert f"`{default}`" in lines[0] if default else "| none |" in lines[0], name
    for name in SECRETS:
        assert f"`{PREFIX}{name.upper()}_FILE`" in page
