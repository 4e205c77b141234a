"""What Prometheus scrapes, over a real store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from holdtrue.metrics import METRICS, Counters, Exposition
from holdtrue.metrics.names import PAIR, PER_PAIR
from holdtrue.model import Cron, Failure, FailureReason, Outcome, Policy, Severity, Undelivered
from holdtrue.store import open_store
from scenes import COULD_NOT_LOOK, EVERY, Found, Scene, catalog_of, find_store, invariant, lose_store
from scenes.canary import Rounds, with_canary
from scenes.refunds import refunds_world

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"

Scrape = Callable[[], dict[str, dict[tuple[str, ...], float]]]

THREE = Found((("1",), ("2",), ("3",)), new=2, known=1)


@dataclass
class Replica:
    """What a last look said of a replica."""

    database: str
    replica: str
    up: bool | None
    lag: timedelta | None


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """One invariant on one database, never looked at."""
    made = Scene(tmp_path)
    made.install(catalog_of([invariant("refunds")]))
    return made


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """The refunds service on a bad morning; only read."""
    return refunds_world(tmp_path_factory.mktemp("world"))


def exposition_of(scene: Scene, counters: Counters | None = None) -> Exposition:
    return Exposition(
        store=scene.store, catalog=lambda: scene.catalog, counters=counters or Counters(version="0.0.test")
    )


def scrape(exposition: Exposition) -> dict[str, dict[tuple[str, ...], float]]:
    """Every sample by name and label values, read with Prometheus' own parser."""
    body, _ = exposition.render()
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in parse_text(body.decode()):
        for sample in family.samples:
            order = PAIR if "invariant" in sample.labels else tuple(sample.labels)
            found.setdefault(sample.name, {})[tuple(sample.labels[name] for name in order)] = sample.value
    return found


def only(samples: dict[tuple[str, ...], float]) -> float:
    assert len(samples) == 1
    return next(iter(samples.values()))


def test_every_entry_is_there_from_the_first_scrape_and_its_count_is_not(scene: Scene) -> None:
    """semantics 10; case 113: no value yet is no series, and never 0."""
    found = scrape(exposition_of(scene))
    pair = ("refunds", "payments", "warning", "payments-oncall")
    assert found["holdtrue_firing"] == {pair: 0}
    assert found["holdtrue_unknown"] == {pair: 1}
    assert found["holdtrue_interval_seconds"] == {pair: 900}
    assert "holdtrue_violations" not in found
    assert "holdtrue_violations_new" not in found
    assert "holdtrue_last_good_run_timestamp_seconds" not in found


def test_an_entry_that_the_store_does_not_know_yet_is_unknown(scene: Scene) -> None:
    """semantics 10: 0 or 1 for every entry of the catalog from the first scrape."""
    scene.catalog = catalog_of([invariant("refunds"), invariant("balances")])
    found = scrape(exposition_of(scene))
    assert found["holdtrue_unknown"]["balances", "payments", "warning", "payments-oncall"] == 1
    assert found["holdtrue_firing"]["balances", "payments", "warning", "payments-oncall"] == 0


def test_what_holds_is_an_explicit_zero(scene: Scene) -> None:
    """semantics 10."""
    scene.look({})
    found = scrape(exposition_of(scene))
    assert only(found["holdtrue_violations"]) == 0
    assert only(found["holdtrue_violations_new"]) == 0
    assert only(found["holdtrue_unknown"]) == 0
    assert only(found["holdtrue_last_good_run_timestamp_seconds"]) == scene.clock().timestamp()


def test_what_is_violated_counts_and_fires(scene: Scene) -> None:
    """semantics 6, 10."""
    scene.look({("refunds", "payments"): THREE})
    found = scrape(exposition_of(scene))
    assert only(found["holdtrue_violations"]) == 3
    assert only(found["holdtrue_violations_new"]) == 2
    assert only(found["holdtrue_firing"]) == 1
    assert found["holdtrue_alerts"] == {("pending",): 0, ("firing",): 1}


def test_what_is_pending_counts_and_does_not_fire(tmp_path: Path) -> None:
    """semantics 6."""
    scene = Scene(tmp_path)
    scene.install(catalog_of([invariant("refunds", policy=Policy(fire_after=2))]))
    scene.look({("refunds", "payments"): THREE})
    found = scrape(exposition_of(scene))
    assert only(found["holdtrue_violations"]) == 3
    assert only(found["holdtrue_firing"]) == 0
    assert found["holdtrue_alerts"] == {("pending",): 1, ("firing",): 0}


def test_a_run_that_could_not_look_leaves_all_series_as_they_were(scene: Scene) -> None:
    """semantics 7.2: it says nothing about the rule."""
    exposition = exposition_of(scene)
    scene.look({("refunds", "payments"): THREE})
    before = scrape(exposition)
    scene.pass_time()
    scene.look({("refunds", "payments"): COULD_NOT_LOOK})
    after = scrape(exposition)
    for metric in PER_PAIR:
        assert after[metric.name] == before[metric.name]


def test_a_violation_out_of_sight_goes_on_firing_without_a_count(scene: Scene) -> None:
    """semantics 6: violated, not seen since; it stays red."""
    scene.look({("refunds", "payments"): THREE})
    for _ in range(4):
        scene.pass_time()
        scene.look({("refunds", "payments"): COULD_NOT_LOOK})
    found = scrape(exposition_of(scene))
    assert only(found["holdtrue_firing"]) == 1
    assert only(found["holdtrue_unknown"]) == 1
    assert "holdtrue_violations" not in found


def test_what_held_too_long_ago_is_unknown_without_a_count(scene: Scene) -> None:
    """semantics 0: good news expires."""
    scene.look({})
    scene.pass_time(timedelta(hours=2))
    found = scrape(exposition_of(scene))
    assert only(found["holdtrue_unknown"]) == 1
    assert "holdtrue_violations" not in found
    assert found["holdtrue_overdue"] == {("payments",): 1}


def test_what_left_the_catalog_leaves_no_series(scene: Scene) -> None:
    """case 108: after a reload without it, or with another severity, its old series are gone."""
    exposition = exposition_of(scene)
    scene.look({("refunds", "payments"): THREE})
    assert b'invariant="refunds"' in exposition.render()[0]
    scene.install(catalog_of([invariant("balances")]))
    assert b'invariant="refunds"' not in exposition.render()[0]


def test_a_changed_severity_or_owner_drops_the_old_series(scene: Scene) -> None:
    """semantics 10; case 108."""
    exposition = exposition_of(scene)
    scrape(exposition)
    scene.install(catalog_of([invariant("refunds", severity=Severity.CRITICAL, owner="others")]))
    found = scrape(exposition)
    assert list(found["holdtrue_firing"]) == [("refunds", "payments", "critical", "others")]


def test_without_the_store_the_bad_news_stays_and_the_good_goes(tmp_path: Path) -> None:
    """semantics 10: series that were 1 stay, those that were 0 go, and store_up says 0."""
    scene = Scene(tmp_path)
    scene.install(catalog_of([invariant("broken"), invariant("sound"), invariant("dark")]))
    scene.look({("broken", "payments"): THREE, ("dark", "payments"): COULD_NOT_LOOK})
    exposition = exposition_of(scene)
    scrape(exposition)
    lose_store(scene)
    found = scrape(exposition)
    assert only(found["holdtrue_store_up"]) == 0
    assert {labels[0]: value for labels, value in found["holdtrue_firing"].items()} == {"broken": 1}
    assert {labels[0]: value for labels, value in found["holdtrue_unknown"].items()} == {"dark": 1}
    assert "holdtrue_violations" not in found
    assert "holdtrue_alerts" not in found
    find_store(scene)
    again = scrape(exposition)
    assert only(again["holdtrue_store_up"]) == 1
    assert len(again["holdtrue_firing"]) == 3


def test_without_the_store_what_left_the_catalog_is_not_brought_back(scene: Scene) -> None:
    """case 108 beside semantics 10."""
    exposition = exposition_of(scene)
    scene.look({("refunds", "payments"): THREE})
    scrape(exposition)
    lose_store(scene)
    scene.catalog = catalog_of([invariant("balances")])
    assert b'invariant="refunds"' not in exposition.render()[0]


def test_an_instance_that_never_read_the_store_says_only_that(scene: Scene) -> None:
    """Not knowing is never good news."""
    lose_store(scene)
    found = scrape(exposition_of(scene))
    assert only(found["holdtrue_store_up"]) == 0
    assert not {metric.name for metric in PER_PAIR} & set(found)


def test_every_instance_says_the_same(world: Scene) -> None:
    """case 125: 20 scrapes of several instances agree, since they read the store."""
    scene = world
    others = [open_store(f"sqlite:///{scene.folder / 'store.db'}", clock=scene.clock) for _ in range(3)]
    expositions = [
        Exposition(store=store, catalog=lambda: scene.catalog, counters=Counters(version=f"{number}"))
        for number, store in enumerate((scene.store, *others))
    ]
    scrapes = [scrape(expositions[number % 4]) for number in range(20)]
    for metric in PER_PAIR:
        assert all(one[metric.name] == scrapes[0][metric.name] for one in scrapes)
    for store in others:
        store.close()


def test_six_series_carry_the_four_labels_and_no_other_does(world: Scene) -> None:
    """semantics 10: exactly six."""
    scene = world
    body, _ = exposition_of(scene).render()
    labelled = {
        sample.name for family in parse_text(body.decode()) for sample in family.samples if "invariant" in sample.labels
    }
    assert labelled == {metric.name for metric in PER_PAIR}
    for family in parse_text(body.decode()):
        for sample in family.samples:
            if sample.name in labelled:
                assert set(sample.labels) == set(PAIR)


def test_no_row_is_in_any_label(world: Scene) -> None:
    """design 3.10: nothing of a row is in labels."""
    scene = world
    body, _ = exposition_of(scene).render()
    for cell in (b"dsp_9", b"h:5d41402abc", b"acc_3"):
        assert cell not in body


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
def test_hostile_names_are_escaped_and_both_formats_parse(tmp_path: Path, accept: str) -> None:
    """case 109: a name is a label's value, escaped as the format says."""
    owner = 'päid "x"\\ \n🔥{},='
    scene = Scene(tmp_path)
    scene.install(catalog_of([invariant("illegal", owner=owner)]))
    scene.look({})
    body, content_type = exposition_of(scene).render(accept)
    parse = parse_openmetrics if accept else parse_text
    families = {family.name: family for family in parse(body.decode())}
    assert families["holdtrue_firing"].samples[0].labels["owner"] == owner
    assert content_type.startswith("application/openmetrics-text" if accept else "text/plain")


def test_a_cron_lines_interval_is_its_longest_gap(tmp_path: Path) -> None:
    """semantics 10."""
    scene = Scene(tmp_path)
    scene.install(catalog_of([invariant("nightly", schedule=Cron("0 2 * * 1-5"))]))
    assert only(scrape(exposition_of(scene))["holdtrue_interval_seconds"]) == timedelta(days=3).total_seconds()


def test_an_owed_message_shows_its_age(scene: Scene) -> None:
    """semantics 7.7: the age of the oldest owed message."""
    scene.look({("refunds", "payments"): THREE})
    owed_at = scene.clock().timestamp()
    scene.pass_time(timedelta(minutes=11))
    found = scrape(exposition_of(scene))
    assert only(found["holdtrue_oldest_owed_message_timestamp_seconds"]) == owed_at


def test_what_is_owed_is_counted_by_notifier_and_by_whether_it_was_tried(scene: Scene) -> None:
    (notifier,) = scene.notifiers
    assert scrape(exposition_of(scene))["holdtrue_owed_messages"] == {
        (notifier, "waiting"): 0,
        (notifier, "failing"): 0,
    }
    scene.look({("refunds", "payments"): THREE})
    assert scrape(exposition_of(scene))["holdtrue_owed_messages"][notifier, "waiting"] == 1
    scene.deliver(Undelivered("it answered 500"), retry_after=EVERY)
    assert scrape(exposition_of(scene))["holdtrue_owed_messages"] == {
        (notifier, "waiting"): 0,
        (notifier, "failing"): 1,
    }


def test_a_database_that_cannot_be_asked_says_so_also_without_the_store(scene: Scene) -> None:
    """Semantics 7.6, 10: the same on every instance; bad news stays while the store cannot be read."""
    away = Found(failure=Failure(FailureReason.REFUSED, "connection refused"))
    scene.look({})
    exposition = exposition_of(scene)
    assert scrape(exposition)["holdtrue_database_unreachable"] == {("payments",): 0}
    scene.look({("refunds", "payments"): away})
    assert scrape(exposition)["holdtrue_database_unreachable"] == {("payments",): 0}, "not yet unchecked"
    for _ in range(3):
        scene.pass_time()
        scene.look({("refunds", "payments"): away})
        scene.watch()
    assert scrape(exposition)["holdtrue_database_unreachable"] == {("payments",): 1}
    lose_store(scene)
    assert scrape(exposition)["holdtrue_database_unreachable"] == {("payments",): 1}
    find_store(scene)
    scene.pass_time()
    scene.look({})
    assert scrape(exposition)["holdtrue_database_unreachable"] == {("payments",): 0}


def test_pushes_are_counted_by_member_and_end_with_it(scene: Scene) -> None:
    counters = Counters(version="1")
    counters.tells([("cluster", "am-1:9093"), ("cluster", "am-2:9093")])
    counters.pushed("cluster", "am-1:9093", taken=True)
    counters.pushed("cluster", "am-2:9093", taken=False)
    found = scrape(exposition_of(scene, counters))
    assert found["holdtrue_pushes_total"]["am-1:9093", "cluster", "taken"] == 1
    assert found["holdtrue_pushes_total"]["am-2:9093", "cluster", "failed"] == 1
    assert set(found["holdtrue_last_push_timestamp_seconds"]) == {("am-1:9093", "cluster"), ("am-2:9093", "cluster")}
    counters.tells([("cluster", "am-2:9093")])
    counters.pushed("cluster", "am-1:9093", taken=True)
    assert set(scrape(exposition_of(scene, counters))["holdtrue_last_push_timestamp_seconds"]) == {
        ("am-2:9093", "cluster")
    }


def test_counters_begin_at_zero_for_every_name_of_the_catalog(scene: Scene) -> None:
    """A series that appears with its first event hides that event from increase()."""
    exposition = exposition_of(scene)
    found = scrape(exposition)
    assert found["holdtrue_runs_total"] == {("payments", outcome.value): 0 for outcome in Outcome}
    assert found["holdtrue_notifications_total"] == {
        ("oncall", outcome): 0 for outcome in ("sent", "partly", "retried", "failed")
    }


def test_a_process_counts_what_it_did(scene: Scene) -> None:
    """semantics 2.4, 10: attempts, by outcome; and how long they took."""
    replicas = [
        Replica("payments", "r1", True, timedelta(seconds=2)),
        Replica("payments", "r2", None, None),
        Replica("payments", "r3", False, None),
    ]
    counters = Counters(version="1.2.3", replica_states=lambda: replicas)
    counters.run_ended("payments", Outcome.HELD, timedelta(milliseconds=30))
    counters.run_ended("payments", Outcome.ERRORED, timedelta(seconds=12))
    counters.missed("payments", 3)
    counters.dropped("payments")
    counters.notified("oncall", "retried")
    counters.reloaded(successful=False, at=scene.clock(), generation=7)
    found = scrape(exposition_of(scene, counters))
    assert found["holdtrue_runs_total"]["payments", "held"] == 1
    assert found["holdtrue_runs_total"]["payments", "errored"] == 1
    assert found["holdtrue_runs_total"]["payments", "violated"] == 0
    assert only(found["holdtrue_run_duration_seconds_count"]) == 2
    assert only(found["holdtrue_run_duration_seconds_sum"]) == pytest.approx(12.03)
    assert only(found["holdtrue_runs_missed_total"]) == 3
    assert only(found["holdtrue_runs_dropped_total"]) == 1
    assert found["holdtrue_notifications_total"]["oncall", "retried"] == 1
    assert only(found["holdtrue_catalog_last_reload_successful"]) == 0
    assert only(found["holdtrue_catalog_generation"]) == 7
    assert found["holdtrue_replica_up"] == {("payments", "r1"): 1, ("payments", "r3"): 0}
    assert found["holdtrue_replica_lag_seconds"] == {("payments", "r1"): 2}
    assert found["holdtrue_build_info"] == {("1.2.3",): 1}
    assert found["holdtrue_max_lag_seconds"] == {("payments",): 30}


def test_two_processes_in_one_do_not_share_counters(scene: Scene) -> None:
    """No global registry."""
    first, second = Counters(version="1"), Counters(version="1")
    first.missed("payments", 1)
    assert only(scrape(exposition_of(scene, second))["holdtrue_runs_missed_total"]) == 0


def test_many_scrapes_at_once_all_read_well(world: Scene) -> None:
    """The exposition serves threads."""
    scene = world
    exposition = exposition_of(scene)
    wanted = scrape(exposition)["holdtrue_firing"]
    found: list[dict[tuple[str, ...], float]] = []

    def look() -> None:
        for _ in range(5):
            found.append(scrape(exposition)["holdtrue_firing"])

    threads = [threading.Thread(target=look) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == [wanted] * 30


def test_every_name_that_is_exposed_is_listed_and_every_listed_one_is_exposed(tmp_path: Path) -> None:
    """One list of names for code, docs and rules."""
    scene = refunds_world(tmp_path)
    assert scene.catalog is not None
    scene.install(with_canary(scene.catalog, scene.notifiers[0]))
    scene.look({})
    rounds = Rounds(scene)
    rounds.go()
    scene.pass_time(timedelta(days=1))
    scene.look({})
    rounds.turn()
    rounds.look()
    counters = Counters(version="1", replica_states=lambda: [Replica("payments", "r1", True, timedelta(seconds=1))])
    counters.reloaded(successful=True, at=scene.clock(), generation=1)
    counters.tells([("cluster", "am-1:9093")])
    counters.pinged("taken")
    exposed = {
        name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum")
        for name in scrape(exposition_of(scene, counters))
        if not name.endswith("_created")
    }
    assert exposed == {metric.name for metric in METRICS}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_metric_is_documented_with_its_labels(metric: object) -> None:
    """docs/metrics.md has a line for each: name, kind, labels."""
    lines = [line for line in DOCS.read_text().splitlines() if line.startswith(f"| `{metric.name}` |")]  # type: ignore[attr-defined]
    assert len(lines) == 1
    cells = [cell.strip() for cell in lines[0].split("|")]
    assert cells[2] == metric.kind  # type: ignore[attr-defined]
    assert cells[3] == (", ".join(f"`{label}`" for label in metric.labels) or "none")  # type: ignore[attr-defined]


def test_a_failure_of_another_kind_is_not_taken_for_an_unreadable_store(scene: Scene) -> None:
    """A surprise is loud: only StoreError keeps the last reading."""
    scene.catalog = replace(scene.catalog, invariants=(replace(invariant("refunds"), schedule=None),))  # type: ignore[arg-type,type-var]
    with pytest.raises(AttributeError):
        exposition_of(scene).render()


def test_errors_that_name_a_reason_never_reach_a_label(scene: Scene) -> None:
    """The reasons of failed runs are for pages; labels stay few."""
    failing = Found(failure=Failure(FailureReason.QUERY, "column marker_9 does not exist", "42703"))
    scene.look({("refunds", "payments"): failing})
    scene.pass_time(EVERY)
    assert b"marker_9" not in exposition_of(scene).render()[0]
