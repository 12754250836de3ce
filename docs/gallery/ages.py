"""A key with many whole numbers is drawn as a line with a band: people of each age, women and men."""

from __future__ import annotations

from pathlib import Path

import lapwing as lw
from lapwing.data import health

PICTURE = Path(__file__).resolve().parent.parent / "pictures" / "ages.png"
QUESTION = "SELECT age, sex, COUNT(*) AS n FROM health GROUP BY age, sex"


def main() -> Path:
    """Saves the picture and prints what it cost."""
    curator = lw.open(
        health(),
        name="health",
        unit="person",
        rows_per_unit=2,  # two study years may fall into one year of age
        groups_per_unit=5,  # who stays for five years is of five ages
        bounds={"age": (0, 64)},
        values={"sex": ["F", "M"]},
        budget=lw.Budget(epsilon=2, delta=1e-6),
        ledger=":memory:",
    )
    release = curator.sql(QUESTION, epsilon=1)
    PICTURE.parent.mkdir(exist_ok=True)
    release.plot(PICTURE)
    print(f"{len(release)} noisy counts for {release.cost}")
    return PICTURE


if __name__ == "__main__":
    main()
