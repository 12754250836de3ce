"""The engines that the suite runs on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.hosts import HOSTS, Host


@pytest.fixture(scope="session", params=HOSTS)
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    """Each engine in turn."""
    made = HOSTS[request.param](request)
    yield made
    made.close()
