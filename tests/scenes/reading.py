"""what a page shows, read as a browser reads it"""

from __future__ import annotations

from html.parser import HTMLParser


class Texts(HTMLParser):
    """What a page shows, and every tag with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text, self.tags = "", []
        self.feed(page)

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
