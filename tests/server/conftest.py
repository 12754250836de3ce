"""What the tests of the server share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.serving import Asked, serving


@pytest.fixture
def asked() -> Iterator[Asked]:
    """A server in this process."""
    with serving() as server:
        yield server
