"""Services as strangers write them, each with a race that no test of theirs finds: found, reproduced, mended in two ways.

Each is cloned and deployed with its own migrations on a real primary; Holdtrue looks at its streaming replica alone. Calls
over HTTP break the rule; the alert is promoted; one line for each party wires the barrier test; it fails on the code as it
was and passes on two different fixes, every time.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from servers.postgres import FreshDatabase
from servers.strangers import clone, quarrel
from strangers.stories import STORIES, Story

REPEATS = 3  # bench/strangers_races.py plays more of them, and in fresh processes


@pytest.mark.timeout(300)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_strangers_race_is_found_on_the_replica_reproduced_each_time_and_mended_in_two_ways(
    story: Story, postgres_database: FreshDatabase, tmp_path: Path
) -> None:
    """Semantics 9.4 and 9.5: violated each time on the racy code, held each time on each fix."""
    stranger = clone(story, tmp_path, postgres_database)
    with stranger.served() as client:
        subjects = story.prepare(client, 100)
        with stranger.watched() as watching:
            quarrel(stranger, client, subjects)
            stranger.wire(watching.promoted())
    racy = stranger.play(REPEATS)
    assert (racy.times, racy.passed) == (REPEATS, 0)
    assert [one for one in racy.messages if "BarrierFailed: violated: " not in one] == []
    for fix in story.fixes:
        with stranger.mended(fix):
            mended = stranger.play(REPEATS)
        assert (mended.times, mended.passed) == (REPEATS, REPEATS), (fix, mended.messages[:1])
