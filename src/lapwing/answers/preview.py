"""What every preview can do: price and fit, as text, HTML and JSON. It reads no data and charges nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from html import escape
from typing import Any

from lapwing.answers.formats import Explanation, dump, price
from lapwing.privacy.budget import Cost, remaining_text


class PricePreview(ABC):
    """The price of what would be asked, beside what is left of the budget."""

    __slots__ = ()

    cost: Cost
    """What asking would be charged now; 0 if a stored answer is at least as good."""
    remaining: Cost

    @abstractmethod
    def lines(self) -> list[str]:
        """The price, the error and how many more such questions fit."""

    @abstractmethod
    def details(self) -> list[str]:
        """The exact price and everything that is known beforehand."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """The same beyond the price, ready for JSON."""

    @property
    def stored(self) -> bool:
        """Whether an answer that is at least as good has been paid for before."""
        return not self.cost

    @property
    def fits(self) -> bool:
        """Whether it could be paid now."""
        return self.cost.fits(self.remaining)

    def explain(self) -> Explanation:
        """The exact price, how it is shared, every error, and what the answer will leave out."""
        unaffordable = [] if self.fits else [f"It does not fit: {remaining_text(self.remaining)} is left."]
        return Explanation("\n".join([*self.details(), *unaffordable, "Nothing was charged and no data were read."]))

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        known = {"price": price(self.cost), "stored": self.stored, "fits": self.fits, **self.facts()}
        return {**known, "in_words": str(self), "explained": self.explain()}

    def to_json(self) -> str:
        return dump(self.to_dict())

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def _price(self, more: str = "") -> str:
        if self.stored:
            return "Price: nothing. An answer that is at least this good is stored."
        return f"Price: {self.cost}{more}."
