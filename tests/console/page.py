"""A page as a browser takes it apart: its elements, its attributes, its text."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = frozenset({"meta", "link", "input", "br", "line", "rect", "circle", "polyline"})


class Page(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.html = html
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def fields(self) -> dict[str, str]:
        return {each["name"]: each.get("value", "") for each in self.all("input") if "name" in each}


TAGS = frozenset(
    """html head meta title link script body header nav a div span form input button main footer h1 h2 h3 p section table thead tbody
    tr th td svg rect line polyline circle article details summary b code pre label select option textarea figure figcaption
    ul li kbd dl dt dd text""".split()  # noqa: SIM905  fifty words, not fifty lines
)


def harmless(html: str) -> Page:
    """The page, if nothing in it can run or lead away: only our own elements, our one script, no handlers, no foreign link."""
    page = Page(html)
    strange = {tag for tag, _ in page.elements} - TAGS
    assert not strange, strange
    assert page.all("script") in ([], [{"src": "/static/console.js", "defer": ""}])
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name in {"style", "srcdoc"}], (
            tag,
            attributes,
        )
        for name in ("href", "src", "action", "data-follow"):
            assert attributes.get(name, "/").startswith(("/", "#", "?")), (tag, attributes)
            assert not attributes.get(name, "/").startswith(("//", "/\\")), (tag, attributes)
    return page
