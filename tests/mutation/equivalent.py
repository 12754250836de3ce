"""Drawn mutants that change nothing a test should notice, with the reason.

The key is the file, the lines taken out and the lines put in, each joined by a space. A test checks that each of them
is still a change of the source, so that the list keeps up with the code.
"""

from __future__ import annotations

EQUIVALENT: dict[tuple[str, str, str], str] = {}
