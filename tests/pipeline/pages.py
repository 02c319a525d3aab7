"""What written pages hold, and which of their links are broken; shared by tests."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page can be linked to by, what it links to and loads, and its pictures' texts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []  # needed to show the page
        self.texts: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors |= {values[key] for key in ("id", "name") if values.get(key)}
        if href := values.get("href"):
            (self.loaded if tag == "link" else self.links).append(href)
        if src := values.get("src"):
            self.loaded.append(src)
        if tag == "img":
            self.texts.append(values.get("alt") or "")


def broken(folder: Path) -> list[str]:
    """Links, pictures, scripts and styles of all pages that are not there, or from elsewhere."""
    pages = {path.resolve(): Page(path) for path in folder.rglob("*.html")}
    found = []
    for path, page in pages.items():
        found += [f"{path.name}: picture without text" for text in page.texts if not text]
        for target in [*page.links, *page.loaded]:
            parts = urlsplit(target)
            if parts.scheme == "data" or (parts.scheme and target in page.links):
                continue
            to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[to].anchors if to in pages else set()
            if parts.scheme or parts.netloc or not to.exists() or not to.is_relative_to(folder):
                found.append(f"{path.name}: {target}")
            elif parts.fragment and unquote(parts.fragment) not in anchors:
                found.append(f"{path.name}: {target}: no such place")
    return found
