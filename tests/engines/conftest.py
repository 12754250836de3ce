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


@pytest.fixture(scope="session", params=HOSTS)
def suite_host(request: pytest.FixtureRequest) -> Iterator[Host]:
    """Each engine in turn: random questions and traps are asked on it."""
    made = HOSTS[request.param](request)
    yield made
    made.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark takes a second for what others do in a hundredth: of single traps `make test` asks a few there."""
    for item in items:
        call = getattr(item, "callspec", None)
        if "test_other_values" in item.nodeid and "spark" in item.name and "few" not in item.name:
            item.add_marker(pytest.mark.slow)
        if call is None or call.params.get("suite_host") != "spark":
            continue
        odd = call.params.get("trap", "REGEXP")[:6] != "REGEXP" or "value" in call.params or "tight" in item.name
        if odd or item.name.startswith("test_functions_see_the_first_characters"):
            item.add_marker(pytest.mark.slow)
