"""what a browser sees of a scene, read out of its pages"""

from __future__ import annotations

import re
from pathlib import Path

from scenes import Found, Scene, catalog_of, invariant
from scenes.refunds import REFUNDS
from scenes.serving import client_of, web_service

OURS = {"origin": "http://127.0.0.1:8080"}
"""What a request from our own pages carries."""

THREE = Found((("1",), ("2",), ("3",)), new=2, known=1)


def fresh(tmp_path: Path, **more: object) -> Scene:
    """One invariant, never looked at."""
    made = Scene(tmp_path)
    made.install(catalog_of([invariant("refunds", **more)]))
    return made


def see(scene: Scene, path: str = "/") -> str:
    """A page of a scene as HTML."""
    answer = client_of(web_service(scene), accept="text/html").get(path)
    assert answer.status_code == 200
    return answer.text


def tones(page: str) -> list[str]:
    """The tone of each line of the overview, from above."""
    return re.findall(r'<tr role="row" class="(\w+)">', page)


def names(page: str) -> list[str]:
    return re.findall(r'<a class="name" href="[^"]*">(\w+)</a>', page)


def number_of_firing(scene: Scene) -> int:
    return scene.store.alerts.find_open(REFUNDS)[0].id
