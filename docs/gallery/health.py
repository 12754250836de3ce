"""What an answer looks like: how often people see a doctor, by what it costs them, drawn by `release.plot`."""

from __future__ import annotations

from pathlib import Path

import lapwing as lw
from lapwing.data import health

PICTURE = Path(__file__).resolve().parent.parent / "pictures" / "health.png"
QUESTION = "SELECT plan, sex, COUNT(visits) AS years, AVG(visits) AS visits FROM health GROUP BY plan, sex"


def main() -> Path:
    """Saves the picture and prints the answer."""
    curator = lw.open(
        health(),
        name="health",
        unit="person",
        rows_per_unit=5,
        groups_per_unit=1,
        bounds={"visits": (0, 20)},
        values={"plan": ["free", "25%", "50%", "95%", "deductible"], "sex": ["F", "M"]},
        budget=lw.Budget(epsilon=2, delta=1e-6),
        ledger=":memory:",
    )
    release = curator.sql(QUESTION, epsilon=1)
    PICTURE.parent.mkdir(exist_ok=True)
    release.plot(PICTURE)
    print(release)
    return PICTURE


if __name__ == "__main__":
    main()
