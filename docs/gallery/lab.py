"""What the lab shows: an audit that rejects a claim, and four attacks beside the cap that epsilon implies."""

from __future__ import annotations

from pathlib import Path

import lapwing as lw

PICTURES = Path(__file__).resolve().parent.parent / "pictures"
ATTACKS = ("averaging", "membership", "reconstruction", "lowest-bit")


def main() -> Path:
    """Saves the pictures and prints the results."""
    PICTURES.mkdir(exist_ok=True)
    wrong = lw.Laplace(epsilon=1.2)
    found = lw.lab.audit(wrong, (0, 1), epsilon=1)
    found.plot(PICTURES / "audit.png")
    print(found)
    for name in ATTACKS:
        attacked = lw.lab.attack(name)
        attacked.plot(PICTURES / f"attack_{name.replace('-', '_')}.png")
        print(f"\n{attacked}")
    return PICTURES / "audit.png"


if __name__ == "__main__":
    main()
