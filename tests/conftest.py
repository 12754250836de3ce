"""Fixtures for all tests."""

from __future__ import annotations

import pytest

from lapwing.noise.bits import SystemBits
from support.tape import SeededBits


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests have no limit of time."""
    for item in items:
        if item.get_closest_marker("slow") is not None:
            item.add_marker(pytest.mark.timeout(0))


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> SeededBits:
    """Every draw of this test comes from one fixed stream, so that it passes for ever or fails for ever."""
    source = SeededBits(20_150)
    monkeypatch.setattr(SystemBits, "words", lambda _, count, width: source.words(count, width))
    monkeypatch.setattr(SystemBits, "integer", lambda _, width: source.integer(width))
    return source
