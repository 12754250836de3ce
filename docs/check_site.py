"""Checks the site that `make docs` has built: links lead to files, files are whole, nothing loads from elsewhere."""

from __future__ import annotations

import json
import struct
import sys
import zlib
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree as ET

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


def read_png(content: bytes) -> None:
    """Raises unless every chunk has its checksum and the pixels are all there."""
    if content[:8] != b"\x89PNG\r\n\x1a\n":
        raise ValueError("it is not a PNG")
    at, kind, chunks = 8, b"", dict[bytes, bytes]()
    while kind != b"IEND":
        size, kind = struct.unpack_from(">I4s", content, at)
        data = content[at + 8 : at + 8 + size]
        if zlib.crc32(kind + data) != struct.unpack_from(">I", content, at + 8 + size)[0]:
            raise ValueError(f"the checksum of {kind.decode()} is wrong")
        chunks[kind] = chunks.get(kind, b"") + data
        at += 12 + size
    width, height, depth, colour = struct.unpack_from(">IIBB", chunks[b"IHDR"])
    row = 1 + (width * depth * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour] + 7) // 8
    if len(zlib.decompress(chunks[b"IDAT"])) != height * row and not chunks[b"IHDR"][12]:  # 1 if interlaced
        raise ValueError("pixels are missing")


READERS: dict[str, Callable[[bytes], object]] = {
    ".png": read_png,
    ".svg": ET.fromstring,
    ".xml": ET.fromstring,
    ".json": json.loads,
    ".ipynb": json.loads,
    ".map": json.loads,
    ".css": bytes.decode,
    ".js": bytes.decode,
    ".html": bytes.decode,
}


def damage(file: Path) -> str | None:
    """Why a file cannot be shown, or None: read as what its name says it is, and never empty."""
    try:
        content = file.read_bytes()
        READERS.get(file.suffix, bytes)(content)
    except (ValueError, KeyError, struct.error, zlib.error, ET.ParseError) as error:
        return str(error) or type(error).__name__
    return None if content else "it is empty"


def main() -> int:
    assets = [file for file in sorted(SITE.rglob("*")) if file.is_file()]
    damaged = [f"{file.relative_to(SITE)} is damaged: {why}" for file in assets if (why := damage(file)) is not None]
    pages = [page for page in sorted(SITE.rglob("*.html")) if page.name != "404.html"]
    found = [f"{page.relative_to(SITE)}: {fault}" for page in pages for fault in faults(page)] + damaged
    print("\n".join([*found, f"{len(pages)} pages, {len(assets)} files, {len(found)} faults"]))
    return 1 if found or len(pages) < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
