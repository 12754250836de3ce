"""The engines that the suite runs on."""

from __future__ import annotations

import pytest

from support.hosts import HOSTS, Host


@pytest.fixture(scope="session", params=HOSTS)
def host(request: pytest.FixtureRequest) -> Host:
    """Each engine in turn."""
    return HOSTS[request.param](request)
