"""says what happens, as it happens: by asking the API, as anybody could"""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdtrue.demo.place import INTERVAL
from holdtrue.demo.stage import Stage, playing
from holdtrue.demo.story import RULE, RULES
from holdtrue.errors import HoldtrueError

_WORDS = {"violated": "VIOLATED", "unknown": "unknown", "holds": "holds"}


@dataclass
class Narrator:
    """Remembers what it has said, and says only what is new."""

    stage: Stage
    _verdicts: dict[str, str] = field(default_factory=dict)
    _alerts: dict[int, tuple[str, int]] = field(default_factory=dict)
    _told_next: bool = False

    def open(self) -> None:
        """Say where everything is."""
        where = "a PostgreSQL primary, asked on its streaming replica" if self.stage.is_postgres else "SQLite"
        say = self.stage.say
        say(f"Holdtrue demo: a refunds service on {where}; four invariants, asked every {INTERVAL}")
        say(f"  dashboard   {self.stage.serving.url}")
        say(f"  everything  {self.stage.place.folder}")
        say(f"  log         {self.stage.place.log}")
        say("  Ctrl-C ends it all")
        say("")

    def look(self) -> None:
        """Say what has changed since the last look."""
        for entry in self.stage.serving.ask("overview")["entries"]:
            word = entry["verdict"]["word"]
            if self._verdicts.get(entry["invariant"]) != word:
                self._verdicts[entry["invariant"]] = word
                self._tell(f"{_WORDS[word]:9} {entry['invariant']}: {entry['verdict']['sentence']}")
        for alert in self.stage.serving.ask("alerts?state=all")["alerts"]:
            state, count = alert["ending"] or alert["state"], alert["count"]
            told = self._alerts.get(alert["id"])
            # Every step of a growing count would bury what is to be read: told again when it has doubled.
            if told is None or told[0] != state or count >= 2 * max(told[1], 1):
                self._alerts[alert["id"]] = (state, count)
                now = "" if told is None else " now"
                self._tell(f"alert {alert['id']:<3} {alert['invariant']} {state}, {count} counted{now}")
            if not self._told_next and state == "firing":
                # The refunds alert shows most when it is promoted; another one only if that one keeps us waiting.
                self._told_next = alert["invariant"] == RULE or len(self._alerts) == len(RULES)
                if self._told_next:
                    self._say_next(alert)

    def _say_next(self, alert: dict[str, Any]) -> None:
        say = self.stage.say
        say("")
        say("  Now, in another terminal:")
        if (folder := commands_folder()) is not None:
            say(f"    export PATH={shlex.quote(str(folder))}:$PATH")
        say(f"    export HOLDTRUE_URL={self.stage.serving.url}")
        say("    holdtrue overview")
        say(f"    holdtrue alerts show {alert['id']}")
        say(f"    holdtrue history {alert['invariant']} --since 10m")
        say(f"    holdtrue promote {alert['id']} --preview")
        say("")

    def _tell(self, line: str) -> None:
        self.stage.say(f"{time.strftime('%H:%M:%S')}  {line}")


def commands_folder() -> Path | None:
    """Where ``holdtrue`` lies, if typing its name would not find this one."""
    ours = Path(sys.executable).parent
    found = shutil.which("holdtrue")
    return None if found is not None and Path(found).parent.resolve() == ours.resolve() else ours


def narrate(stage: Stage) -> None:
    """Run the traffic and say what happens, until `Stage.stopping` is set.

    Raises:
        HoldtrueError: the service ended by itself.
    """
    narrator = Narrator(stage)
    narrator.open()
    with playing(stage.traffic):
        while not stage.stopping.wait(1.0):
            if not stage.serving.alive():
                raise HoldtrueError("the demo's service ended by itself", remedy=f"see {stage.place.log}")
            narrator.look()
    stage.say("")
    stage.say("stopping")
