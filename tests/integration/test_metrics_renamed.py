"""What Prometheus scrapes of an invariant that is renamed while it fires (semantics 1.2, 10)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families as parse_text

from holdtrue.metrics import Counters, Exposition
from scenes import Found, Scene, catalog_of, invariant


def exposition_of(scene: Scene) -> Exposition:
    return Exposition(store=scene.store, catalog=lambda: scene.catalog, counters=Counters(version="0.0.test"))


def scrape(exposition: Exposition, metric: str = "holdtrue_firing") -> dict[str, float]:
    """The samples of one metric, by the name of the invariant."""
    body, _ = exposition.render()
    samples = [sample for family in parse_text(body.decode()) for sample in family.samples if sample.name == metric]
    return {sample.labels["invariant"]: sample.value for sample in samples}


def test_a_former_name_is_an_explicit_zero_for_as_long_as_a_rule_may_remember_it(tmp_path: Path) -> None:
    """semantics 10: the sticky rule would keep the alert under it, beside the one under the new name."""
    scene = Scene(tmp_path)
    scene.install(catalog_of([invariant("refunds")]))
    exposition = exposition_of(scene)
    scene.look({("refunds", "payments"): Found((("1",),))})
    assert scrape(exposition) == {"refunds": 1}
    scene.install(catalog_of([invariant("money", renamed_from="refunds")]))
    both = {"money": 1, "refunds": 0}
    assert scrape(exposition) == both
    assert scrape(exposition_of(scene)) == both, "an instance that began under the new name"
    assert scrape(exposition, "holdtrue_unknown").keys() == {"money"}
    scene.pass_time(timedelta(minutes=19))
    assert scrape(exposition) == both
    scene.pass_time(timedelta(minutes=2))
    assert scrape(exposition) == {"money": 1}
    scene.store.close()
