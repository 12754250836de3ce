"""Checks the site that `make docs` has built: every link leads to a file, and no page loads anything from elsewhere."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SITE = Path(__file__).resolve().parent.parent / "site"
LOADS = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src"}


class Links(HTMLParser):
    """What a page links to, and what it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        target = given.get(LOADS.get(tag, ""))
        if target and given.get("rel") not in ("canonical", "next", "prev"):
            self.loads.append(target)


def faults(page: Path) -> list[str]:
    """Links of a page that lead nowhere, and what it would fetch from a network."""
    found = Links()
    found.feed(page.read_text(encoding="utf-8"))
    foreign = [f"loads {target}" for target in found.loads if urlsplit(target).netloc]
    local = [urlsplit(link) for link in (*found.links, *found.loads)]
    paths = {unquote(link.path) for link in local if not link.scheme and not link.netloc and link.path}
    broken = [f"links to {path}" for path in sorted(paths) if not (page.parent / path).resolve().exists()]
    return [*foreign, *broken]


def main() -> int:
    pages = [page for page in sorted(SITE.rglob("*.html")) if page.name != "404.html"]
    found = [f"{page.relative_to(SITE)}: {fault}" for page in pages for fault in faults(page)]
    print("\n".join([*found, f"{len(pages)} pages, {len(found)} faults"]))
    return 1 if found or len(pages) < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
