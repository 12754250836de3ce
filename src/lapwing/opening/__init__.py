"""From files, frames or lapwing.toml to a curator."""

from __future__ import annotations

from lapwing.opening.data import open_data
from lapwing.opening.settings import curator_of, load

__all__ = ["curator_of", "load", "open_data"]
