"""The answers of a batch, by number or by name."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any, Generic, TypeVar

from lapwing.answers.formats import Explanation, dump, price, small
from lapwing.answers.tabular import Tabular
from lapwing.errors import Misconfigured
from lapwing.expressions.refusal import nearest
from lapwing.privacy.budget import Cost

Item = TypeVar("Item", bound=Tabular)


class Together(Generic[Item]):
    """Answers in the order of their questions."""

    __slots__ = ()

    names: tuple[str, ...]
    releases: tuple[Item, ...]
    cost: Cost
    """What all of them cost together; 0 if all were stored."""
    bought: str
    """The price of all of them in the caller's words."""

    def __len__(self) -> int:
        return len(self.releases)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.releases)

    def __getitem__(self, which: int | str) -> Item:
        if isinstance(which, str):
            if which not in self.names:
                raise Misconfigured(f"`{which}` is not a question of this batch. {nearest(which, self.names)}")
            return self.releases[self.names.index(which)]
        if not -len(self) <= which < len(self):
            raise Misconfigured(f"This batch has {len(self)} answers. Count from 0 to {len(self) - 1}.")
        return self.releases[which]

    def to_dict(self) -> dict[str, Any]:
        """Every answer by its name, ready for JSON."""
        answers = {name: release.to_dict() for name, release in zip(self.names, self.releases, strict=True)}
        return {"price": price(self.cost), "in_words": self._footer(), "answers": answers}

    def to_json(self) -> str:
        return dump(self.to_dict())

    def explain(self) -> Explanation:
        """The exact price, what limits leave out and the method, of each answer."""
        pairs = zip(self.names, self.releases, strict=True)
        return Explanation("\n\n".join(f"{name}\n{release.explain()}" for name, release in pairs))

    def __str__(self) -> str:
        shown = [f"{name}\n{release}" for name, release in zip(self.names, self.releases, strict=True)]
        return "\n\n".join([*shown, self._footer()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        pairs = zip(self.names, self.releases, strict=True)
        shown = [f"<h4>{escape(name)}</h4>{release._repr_html_()}" for name, release in pairs]
        return "".join([*shown, small([self._footer()])])

    def _footer(self) -> str:
        price = f"price {self.bought or self.cost}" if self.cost else "stored answers, no price"
        return f"{len(self)} answer{'' if len(self) == 1 else 's'}; {price}"
