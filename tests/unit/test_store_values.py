from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import postgresql, sqlite

from holdtrue.errors import SettingsRefused, StoreNotShareable
from holdtrue.model import Evidence, EvidenceRow, Position, Sample
from holdtrue.store import bodies, open_store
from holdtrue.store.columns import Lasting, Moment, moment_text, plain_text
from holdtrue.store.engine import file_system_of

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
tmpfs /tmp tmpfs rw 0 0
filer:/export /srv/share nfs4 rw 0 0
filer:/other /srv/share/local\\040disk xfs rw 0 0
broken
"""

ZONES = st.sampled_from([UTC, timezone(timedelta(hours=-7, minutes=-30))])
aware = st.builds(
    lambda seconds, micro, zone: (
        datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds, microseconds=micro)
    ).astimezone(zone),
    st.integers(-60_000_000_000, 250_000_000_000),
    st.integers(0, 999_999),
    ZONES,
)
texts = st.text(st.characters(exclude_categories=()), max_size=20)
cells = st.none() | texts


@given(aware, aware)
def test_moments_sort_as_text_as_they_do_in_time(one: datetime, other: datetime) -> None:
    assert (moment_text(one) < moment_text(other)) == (one < other)
    assert len(moment_text(one)) == 27


@given(aware)
def test_a_moment_comes_back_from_sqlite_in_utc(moment: datetime) -> None:
    dialect = sqlite.dialect()  # type: ignore[no-untyped-call]
    back = Moment().process_result_value(Moment().process_bind_param(moment, dialect), dialect)
    assert back == moment
    assert back is not None
    assert back.tzinfo is UTC


@pytest.mark.parametrize("dialect", [sqlite.dialect(), postgresql.dialect()])  # type: ignore[no-untyped-call]
def test_a_time_without_zone_is_refused(dialect: object) -> None:
    """House rule: times are aware UTC; we never guess a zone."""
    with pytest.raises(ValueError, match="without zone"):
        Moment().process_bind_param(datetime(2026, 11, 29), dialect)  # type: ignore[arg-type]  # noqa: DTZ001


@given(st.timedeltas(timedelta(0), timedelta(days=999)))
def test_a_duration_comes_back(duration: timedelta) -> None:
    dialect = sqlite.dialect()  # type: ignore[no-untyped-call]
    assert Lasting().process_result_value(Lasting().process_bind_param(duration, dialect), dialect) == duration


@given(texts)
def test_a_text_from_anywhere_becomes_one_that_every_database_holds(text: str) -> None:
    plain = plain_text(text)
    plain.encode("utf-8")
    assert "\0" not in plain
    assert plain_text(plain) == plain
    if "\0" not in text and not any(0xD800 <= ord(one) <= 0xDFFF for one in text):
        assert plain == text


@given(st.lists(st.lists(cells, min_size=2, max_size=2).map(tuple), max_size=4), texts)
def test_samples_and_evidence_come_back_whatever_their_values(found: list[tuple[str | None, ...]], name: str) -> None:
    sample = Sample((name, "b"), tuple(found), ("k",), ("new",), frozenset({name}))
    text = bodies.sample_text(sample)
    assert text.isascii()
    assert bodies.sample_of(text) == sample
    evidence = Evidence(
        key=name,
        violation_columns=(name,),
        violation=(None,),
        rows=tuple(
            EvidenceRow(name, ("a", "b"), row, ("int", name), True, 7, datetime(2026, 1, 1, tzinfo=UTC))
            for row in found
        ),
        position=Position(name, datetime(2026, 1, 1, tzinfo=UTC), in_progress=(1, 2), lag=timedelta(seconds=1)),
        schema_sql=name,
        left_out=(name,),
        pseudonymised=("refunds.id",),
        incomplete=name,
    )
    assert bodies.evidence_of(name, bodies.evidence_text(evidence)) == evidence


@given(st.none() | st.lists(st.integers(0, 2**63), max_size=3).map(tuple), st.none() | st.timedeltas())
def test_a_position_comes_back(in_progress: tuple[int, ...] | None, lag: timedelta | None) -> None:
    position = Position(
        "r1", datetime(2026, 1, 1, tzinfo=UTC), "standby", "7312", 2, "0/1", "1:2:", in_progress, lag, True
    )
    assert bodies.position_of(bodies.position_text(position)) == position
    assert bodies.position_of(bodies.position_text(None)) is None


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/holdtrue.db", "ext4"),
        ("/srv/share/holdtrue.db", "nfs4"),
        ("/srv/shared/holdtrue.db", "ext4"),
        ("/srv/share/local disk/holdtrue.db", "xfs"),
    ],
)
def test_the_nearest_mount_says_what_file_system_a_store_is_on(path: str, kind: str) -> None:
    """semantics 8.3."""
    assert file_system_of(Path(path), MOUNTS) == kind


def test_a_sqlite_store_on_a_network_file_system_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """semantics 8.3."""
    monkeypatch.setattr("holdtrue.store.engine.file_system_of", lambda _path: "fuse.sshfs")
    with pytest.raises(StoreNotShareable, match=r"network file system \(fuse.sshfs\)"):
        open_store(f"sqlite:///{tmp_path / 'store.db'}")


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true"])
def test_a_sqlite_store_without_a_file_of_its_own_is_refused(url: str) -> None:
    """semantics 8.3: each connection would see another store."""
    with pytest.raises(StoreNotShareable):
        open_store(url)


@pytest.mark.parametrize(
    "url", ["mysql://u:hunter2@h/d", "hunter2", "postgresql+asyncpg://u:hunter2@h/d", "postgresql://u:hunter2@h:port/d"]
)
def test_a_url_that_is_no_stores_is_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(SettingsRefused) as refused:
        open_store(url)
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is None
