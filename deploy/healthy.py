"""Exit code 0 if the server of this machine is healthy: python healthy.py [/srv/lapwing/lapwing.toml]."""

from __future__ import annotations

import ssl
import sys
import tomllib
from pathlib import Path
from urllib.request import urlopen

SECONDS = 5


def main(file: Path) -> int:
    """Asks /v1/health, which needs no token and tells nothing of the data."""
    serve = tomllib.loads(file.read_text(encoding="utf-8")).get("serve", {})
    scheme = "https" if "tls_certificate" in serve else "http"
    host = serve.get("host", "127.0.0.1")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # all of its addresses
    mine = ssl._create_unverified_context()
    try:
        with urlopen(
            f"{scheme}://{f'[{host}]' if ':' in host else host}:{serve.get('port', 8470)}/v1/health",
            timeout=SECONDS,
            context=mine,
        ) as told:
            return 0 if told.status == 200 else 1
    except OSError:
        return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "/srv/lapwing/lapwing.toml")))
