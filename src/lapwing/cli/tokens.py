"""`lapwing token`: who may ask the server."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lapwing.cli.options import DEFAULT, FileOption, JsonOption, ledger_at, read_number
from lapwing.cli.output import aligned, show
from lapwing.errors import LapwingError, Misconfigured

if TYPE_CHECKING:
    from lapwing.server.tokens import TokenBook

app = typer.Typer(help="Say who may ask the server, and how much.", no_args_is_help=True)

ShareArgument = Annotated[str | None, typer.Option("--share", help="The most they may spend, as a part of the budget.")]


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Who it is for. The ledger charges this name.")],
    role: Annotated[str, typer.Option(help="steward, analyst or auditor.")] = "analyst",
    team: Annotated[str | None, typer.Option(help="Their team, which may have an allowance too.")] = None,
    days: Annotated[int, typer.Option(help="For how many days it is valid.")] = 90,
    share: ShareArgument = None,
    to: Annotated[Path | None, typer.Option(help="Write the token to this new file, for its owner only.")] = None,
    file: FileOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Make a token. It is shown once: the ledger has only its hash."""
    from lapwing.server.tokens import allow_share, read_share, write_secret

    part = None if share is None else read_share(read_number(share, "share"))
    if to is not None and to.exists():
        raise Misconfigured(f"{to} exists. Name another file for the token. No token was made.")
    book = _book(file)
    token, facts = book.add(name, role, team=team, days=days)
    try:
        if part is not None:
            allow_share(ledger_at(file), facts.name, part)
        if to is not None:
            write_secret(to, token)
    except LapwingError:
        book.revoke(facts.id)  # it was never shown
        raise
    shown = {**asdict(facts), "token": None if to else token, "file": None if to is None else str(to)}
    text = f"The token of {facts.name} ({facts.role}, id {facts.id}) is valid until {facts.expires}."
    show(shown, as_json, f"{text}\n{f'It is in {to}.' if to else token}")


@app.command("list")
def listed(file: FileOption = DEFAULT, as_json: JsonOption = False) -> None:
    """List all tokens, without their secrets, and what each name may spend."""
    from lapwing.server.tokens import Role

    ledger, tokens = ledger_at(file), _book(file).all()
    limits = {token.name: ledger.allowance(token.name) for token in tokens}
    allowed = {name: None if limit is None else str(limit) for name, limit in limits.items()}
    if as_json:
        spendable = [None if t.role == Role.AUDITOR else allowed[t.name] for t in tokens]
        return show([{**asdict(t), "allowance": s} for t, s in zip(tokens, spendable, strict=True)], True, "")
    rows = [("id", "name", "role", "valid until", "may spend", "")]
    for t in tokens:
        most = "nothing" if t.role == Role.AUDITOR else allowed[t.name] or "the budget"
        rows.append((t.id, t.name, str(t.role), t.expires, most, "revoked" * bool(t.revoked)))
    lines = aligned(rows)
    teams = sorted({f"@{t.name.partition('@')[2]}" for t in tokens if "@" in t.name})
    of_teams = [(team, limit) for team in teams if (limit := ledger.allowance(team)) is not None]
    lines += [f"{team} may spend {limit}, and has spent {ledger.spent_by(team)}." for team, limit in of_teams]
    return show(None, False, "\n".join(lines))


@app.command("revoke")
def revoke(
    which: Annotated[str, typer.Argument(help="The id of a token, or a name for all of its tokens.")],
    file: FileOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Revoke a token permanently. It is refused from the next request on."""
    ended = _book(file).revoke(which)
    words = ", ".join(f"{token.id} of {token.name}" for token in ended)
    show([asdict(token) for token in ended], as_json, f"Revoked {words}.")


@app.command("allow")
def allow(
    name: Annotated[str, typer.Argument(help="A name such as ann, or a team such as @cardiology.")],
    share: Annotated[str, typer.Option("--share", help="The most they may ever spend, as a part of the budget.")],
    file: FileOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Set the most that a name or a team may ever spend: the same share of the budget and of its delta."""
    from lapwing.server.tokens import allow_share

    limit = allow_share(ledger_at(file), name, read_number(share, "share"))
    said = f"{name} may spend {limit}, as part of the whole budget."
    names = {token.name for token in _book(file).all()}
    if name not in names | {f"@{member.partition('@')[2]}" for member in names if "@" in member}:
        said += " Nobody has a token of that name yet; the name of a team begins with @."
    show({"name": name, "allowance": str(limit)}, as_json, said)


def _book(file: Path) -> TokenBook:
    from lapwing.server.tokens import TokenBook

    return TokenBook(ledger_at(file))
