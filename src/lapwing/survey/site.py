"""The pages of a survey, as they are served or written to a folder to be hosted elsewhere."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from lapwing.errors import Misconfigured
from lapwing.survey.definition import Survey
from lapwing.survey.wire import canonical, public_description

PAGES = Path(__file__).parent / "pages"
TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
_FORM_FILES = ("randomize.js", "form.js", "survey.css", "favicon.svg")


@dataclass(frozen=True)
class Site:
    """Everything that can be loaded, read once: what is hashed is what is served."""

    survey: Survey

    @cached_property
    def description(self) -> dict[str, Any]:
        return public_description(self.survey)

    @cached_property
    def description_bytes(self) -> bytes:
        return canonical(self.description)

    @cached_property
    def files(self) -> Mapping[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(PAGES.iterdir()) if path.suffix in TYPES}

    @cached_property
    def hashes(self) -> dict[str, dict[str, str]]:
        """The SHA-256 of each file, in hex and as browsers check it before they run a script."""
        files = {**self.files, "survey.json": self.description_bytes}
        digests = {name: sha256(data).digest() for name, data in files.items()}
        return {
            name: {"sha256": digest.hex(), "integrity": f"sha256-{base64.b64encode(digest).decode()}"}
            for name, digest in digests.items()
        }

    @property
    def policy(self) -> str:
        """Content-Security-Policy: scripts and styles of this server alone, and reports to the survey's server."""
        parts = urlsplit(self.survey.url) if self.survey.url else None
        elsewhere = f" {parts.scheme}://{parts.netloc}" if parts else ""
        return (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
            f"connect-src 'self'{elsewhere}; form-action 'none'; base-uri 'none'"
        )

    def form(self, *, static: bool = False) -> str:
        """The form, for this server or to be hosted elsewhere."""
        text = self.description_bytes.decode().replace("<", "\\u003c").replace("\u2028", "\\u2028")
        return self._render("form.html", static=static, csp=self.policy, description_json=Markup(text))

    def results(self, key: str | None) -> str:
        data = "results.json" if key is None else f"results.json?key={quote(key)}"
        return self._render("results.html", data=data, static=False)

    def notice(self, title: str, message: str) -> str:
        return self._render("notice.html", title=title, message=message, static=False)

    def export(self, folder: Path) -> list[Path]:
        """Writes the form to a folder that any web server can host; it sends reports to `url`."""
        if self.survey.url is None:
            raise Misconfigured(
                "A form that is hosted elsewhere must know where its server is. "
                'Write url = "https://..." in survey.toml.'
            )
        files = {"index.html": self.form(static=True).encode(), "survey.json": self.description_bytes}
        files |= {name: self.files[name] for name in _FORM_FILES}
        sums = "".join(f"{sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))
        files["SHA256SUMS"] = sums.encode()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, data in files.items():
                (folder / name).write_bytes(data)
        except OSError as error:
            raise Misconfigured(f"{folder} cannot be written ({error.strerror}). Name another folder.") from None
        return [folder / name for name in files]

    def _render(self, name: str, **more: Any) -> str:
        return _templates().get_template(name).render(survey=self.description, hashes=self.hashes, **more)


@cache
def _templates() -> Environment:
    return Environment(loader=FileSystemLoader(PAGES), autoescape=True, trim_blocks=True)
