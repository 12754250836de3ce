"""The pictures of the course, good on a slide: docs/pictures/course_two_laws.png and its neighbours."""

from __future__ import annotations

from pathlib import Path

from lapwing.lab.course import slides

PICTURES = Path(__file__).parents[1] / "pictures"
DRAWN = {
    "two_laws": slides.draw_two_laws,
    "loss": slides.draw_loss,
    "beliefs": slides.draw_beliefs,
    "error": slides.draw_error,
    "auction": slides.draw_auction,
    "laplace_or_gaussian": slides.draw_laplace_or_gaussian,
    "local_or_central": slides.draw_local_or_central,
}


def main() -> Path:
    for name, draw in DRAWN.items():
        draw(path=PICTURES / f"course_{name}.png")
        print(f"course_{name}.png")
    return PICTURES / "course_auction.png"


if __name__ == "__main__":
    main()
