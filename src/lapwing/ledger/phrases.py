"""What the ledger says to people."""

from __future__ import annotations

from lapwing.privacy.budget import Budget, Cost, remaining_text
from lapwing.privacy.phrases import at_least_text, decimal_text

NONE_FITS = "No question fits any more."


def budget_text(budget: Budget) -> str:
    delta = f", delta = {decimal_text(budget.delta)}" if budget.delta else ""
    return f"epsilon = {decimal_text(budget.epsilon)}{delta} ({budget.accounting.value} accounting)"


def shortage(budget: Budget, cost: Cost, room: Cost, analyst: str | None) -> tuple[str, str]:
    """Why a charge does not fit, and what would: into the total, or into an analyst's own allowance if one is named."""
    most = budget.affordable(room)
    if cost.amount <= room.amount and not room.delta:
        advice = "Group by columns whose values are declared: that needs no delta."
    elif cost.amount <= room.amount:
        advice = f"Ask for delta = {at_least_text(room.delta)} or less."
    elif most:
        advice = f"Ask for epsilon = {at_least_text(most)} or less."
    else:
        advice = NONE_FITS
    whose, more = allowance_words(analyst)
    return f"This costs {cost}, and {remaining_text(room)} is left{whose}.", f"{advice}{more}"


def allowance_words(analyst: str | None) -> tuple[str, str]:
    """Whose allowance is too small, and who can raise it; empty for the whole budget."""
    return ("", "") if analyst is None else (f" of the allowance of {analyst}", " The steward can raise the allowance.")
