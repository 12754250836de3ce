"""`lapwing audit` and `lapwing attack`: the lab from the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from lapwing.cli.options import JsonOption, read_number
from lapwing.cli.output import check_picture, echo, show
from lapwing.cli.progress import waiting
from lapwing.errors import Misconfigured


def audit(
    target: Annotated[
        str | None,
        typer.Argument(
            help='module:function, a program, a question such as "SELECT COUNT(*) FROM health", or the URL of a server.'
        ),
    ] = None,
    epsilon: Annotated[str | None, typer.Option("--epsilon", "-e", help="The epsilon that is claimed.")] = None,
    delta: Annotated[str, typer.Option("--delta", help="The delta that is claimed.")] = "0",
    rho: Annotated[str | None, typer.Option("--rho", help="Claim rho-zCDP instead, as a whole curve.")] = None,
    mu: Annotated[str | None, typer.Option("--mu", help="Claim mu-Gaussian DP instead, as a whole curve.")] = None,
    left: Annotated[str | None, typer.Option("--left", help="The data with one unit, as JSON or text.")] = None,
    right: Annotated[str | None, typer.Option("--right", help="The data without it.")] = None,
    runs: Annotated[int | None, typer.Option("--runs", "-n", help="Runs on each side, fixed beforehand.")] = None,
    alpha: Annotated[float, typer.Option("--alpha", help="How often a true claim may be rejected.")] = 1e-3,
    early: Annotated[bool, typer.Option("--early", help="Stop at the first rejection. Stays valid.")] = False,
    groups: Annotated[
        int | None, typer.Option("--groups", help="Audit an aggregate such as COUNT(*) by one question over N groups.")
    ] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Run the function on both neighbours with the same released numbers.")
    ] = False,
    zoo: Annotated[bool, typer.Option("--zoo", help="Audit the zoo of broken and sound mechanisms.")] = False,
    power: Annotated[
        bool, typer.Option("--power", help="With --zoo: find the runs that reject 95 % of times.")
    ] = False,
    other: Annotated[str | None, typer.Option("--other", help="With a URL: the server without the person.")] = None,
    question: Annotated[str | None, typer.Option("--question", help="With a URL: what both servers are asked.")] = None,
    own: Annotated[
        bool, typer.Option("--i-own-this-data", help="With a URL: audit data that are not the bundled neighbours.")
    ] = False,
    write: Annotated[
        Path | None, typer.Option("--write-neighbours", help="Write two folders to serve and audit, and stop.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Also draw the result to a .png or .svg file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Try to refute a claim of privacy. Exit code 1 if it is rejected, 2 if there is nothing to audit."""
    check_picture(plot)
    if write is not None:
        return _write_neighbours(write, as_json)
    if zoo:
        return _visit_zoo(alpha, power, as_json)
    if target is None:
        raise Misconfigured("name what to audit: module:function, a program or a question. Or pass --zoo.")
    if groups is not None:
        return _audit_groups(target, epsilon, groups, alpha, as_json)
    if replay:
        return _replay(target, left, right, epsilon, delta, as_json)
    claim = _claim(epsilon, delta, rho, mu)
    with ExitStack() as closer:
        if target.startswith(("http://", "https://")):
            mechanism, pair, many, n = _servers(target, other, question, epsilon, runs, own, closer)
        else:
            mechanism, pair, many, n = _target(target, left, right, runs, epsilon, closer)
        from lapwing.lab import audit as run

        with progress("auditing", n) as step:
            result = run(mechanism, pair, claim=claim, runs=n, alpha=alpha, many=many, early=early, step=step)
    _show(result, as_json)
    if plot is not None:
        result.plot(plot)
    if result.rejected or result.only is not None:
        raise typer.Exit(1 if result.rejected else 2)


def attack(
    name: Annotated[str | None, typer.Argument(help="The attack; without one, all are listed.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Run all attacks and write one page.")] = False,
    page: Annotated[Path, typer.Option("--page", help="Where --all writes its page.")] = Path("attacks.html"),
    plot: Annotated[Path | None, typer.Option("--plot", help="Also draw the result to a .png or .svg file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Attack an unprotected system, naive noise and Lapwing, and compare with what epsilon allows."""
    from lapwing.lab.attacks import ATTACKS
    from lapwing.lab.attacks import attack as run

    check_picture(plot)
    if everything:
        from lapwing.lab.attacks.attempt import write_page

        results = []
        with progress("attacking", len(ATTACKS)) as step:
            for listed in ATTACKS:
                results.append(run(listed))
                step(len(results))
                if not as_json:
                    echo(f"{results[-1]}\n")
        write_page(results, page)
        facts = [attacked.to_dict() for attacked in results]
        echo(json.dumps({"written": str(page), "attacks": facts}) if as_json else f"Wrote {page}.")
        return
    if name is None:
        echo(json.dumps(ATTACKS) if as_json else "\n".join(f"{title:15} {what}" for title, what in ATTACKS.items()))
        return
    with waiting("attacking"):
        attacked = run(name)
    _show(attacked, as_json)
    if plot is not None:
        attacked.plot(plot)


@contextmanager
def progress(words: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(words, total=total)
        yield lambda done: bar.update(task, completed=done)


def _target(
    name: str, left: str | None, right: str | None, runs: int | None, epsilon: str | None, closer: ExitStack
) -> tuple[Callable[..., Any], Any, bool, int]:
    """The mechanism, its neighbours, whether it makes many releases at once, and the number of runs."""
    from lapwing.lab.audit import RUNS
    from lapwing.lab.targets import ask_question, find_function, read_data, run_program

    if name.lstrip().upper().startswith(("SELECT", "WITH")):
        n = runs or 1_000
        release, pair = ask_question(name, epsilon=_price(epsilon), runs=n, closer=closer)
        return release, pair, False, n
    if left is not None and left == right:
        raise Misconfigured("--left and --right are the same data. Pass two neighbours: with one unit, and without it.")
    given = None if left is None or right is None else (read_data(left), read_data(right))
    if Path(name).is_file():
        if given is None:
            raise Misconfigured("a program needs two neighbours. Pass --left and --right.")
        return run_program(name), given, True, runs or RUNS
    if ":" not in name:
        raise Misconfigured(f"{name!r} is no question, no program and not module:function.")
    function, own = find_function(name)
    if given is None and own is None:
        raise Misconfigured("two neighbours are missing. Pass --left and --right, or name the pair NEIGHBOURS there.")
    return function, own if given is None else given, False, runs or RUNS


def _servers(
    url: str,
    other: str | None,
    question: str | None,
    epsilon: str | None,
    runs: int | None,
    own: bool,
    closer: ExitStack,
) -> tuple[Callable[..., Any], Any, bool, int]:
    """Two servers as a mechanism; 500 runs on each unless it is said otherwise."""
    from lapwing.client.audited import QUESTION, ask_servers

    if other is None or other == url:
        raise Misconfigured("an audit compares two servers. Name the one without the person: --other URL.")
    n, asked = runs or 500, question or QUESTION
    mechanism, pair = ask_servers((url, other), asked, epsilon=_price(epsilon), runs=n, own=own, closer=closer)
    return mechanism, pair, True, n


def _write_neighbours(folder: Path, as_json: bool) -> None:
    from lapwing.lab.targets import write_neighbours

    files = [str(file) for file in write_neighbours(folder)]
    serve = "\n".join(f"  lapwing serve --file {file}" for file in files)
    echo(json.dumps({"written": files}) if as_json else f"Serve both, each with its own token:\n{serve}")


def _replay(target: str, left: str | None, right: str | None, epsilon: str | None, delta: str, as_json: bool) -> None:
    from lapwing.lab.replay import replay

    if ":" not in target:
        raise Misconfigured(f"{target!r} is not module:function. Only Python code can be replayed.")
    with ExitStack() as closer:
        function, pair, _, _ = _target(target, left, right, None, None, closer)
    claimed = None if epsilon is None else read_number(epsilon, "epsilon")
    result = replay(function, pair, epsilon=claimed, delta=read_number(delta, "delta"))
    _show(result, as_json)
    if result.rejected or not result.releases:
        raise typer.Exit(1 if result.rejected else 2)


def _audit_groups(aggregate: str, epsilon: str | None, groups: int, alpha: float, as_json: bool) -> None:
    from lapwing.lab.audit import audit_groups

    result = audit_groups(aggregate, epsilon=_price(epsilon), groups=groups, alpha=alpha)
    _show(result, as_json)
    if result.rejected:
        raise typer.Exit(1)


def _visit_zoo(alpha: float, power: bool, as_json: bool) -> None:
    """A line for each specimen; exit code 1 if a broken one passes or a sound one is rejected."""
    from lapwing.lab.replay import replay
    from lapwing.lab.zoo import BROKEN, FAULTS, SOUND, needed_runs

    rows = []
    with progress("visiting the zoo", len(BROKEN) + len(SOUND)) as step:
        for specimen in (*BROKEN, *SOUND):
            result = specimen.audit(alpha=alpha)
            needed = needed_runs(specimen) if power and not specimen.sound else None
            rows.append((specimen, result, needed))
            step(len(rows))
            if not as_json:
                verdict = "rejected" if result.rejected else "no violation found"
                more = f"  95 % of audits reject at N = {needed:,}" if needed else ""
                bound = f"epsilon >= {max(result.epsilon_lower, 0):.2f}"
                line = f"{specimen.name:34} N = {specimen.runs:>7,}  {bound:15}  {verdict:18}  {specimen.wrong}{more}"
                echo(line.rstrip())
    replays = {name: replay(function, pair, epsilon=1) for name, (function, pair) in FAULTS.items()}
    wrong = [specimen.name for specimen, result, _ in rows if result.rejected == specimen.sound]
    wrong += [name for name, result in replays.items() if not result.rejected]
    if as_json:
        audits = [{"name": s.name, "sound": s.sound, "needed_runs": n, **f.to_dict()} for s, f, n in rows]
        replayed = [{"name": name, "sound": False, **result.to_dict()} for name, result in replays.items()]
        echo(json.dumps([*audits, *replayed]))
    else:
        for name, found_there in replays.items():
            echo(f"{name + ', by replay':34} {'rejected':>32}  {found_there.problems[0]}")
        caught = sum(result.rejected for _, result, _ in rows) + sum(result.rejected for result in replays.values())
        of = len(BROKEN) + len(FAULTS)
        echo(f"{caught} of {of} broken mechanisms rejected; wrong verdicts: {', '.join(wrong) or 'none'}.")
    if wrong:
        raise typer.Exit(1)


def _claim(epsilon: str | None, delta: str, rho: str | None, mu: str | None) -> Any:
    from lapwing.lab.report import read_claim

    given = {"epsilon": epsilon, "rho": rho, "mu": mu}
    numbers = {name: None if text is None else read_number(text, name) for name, text in given.items()}
    return read_claim(None, delta=read_number(delta, "delta"), **numbers)


def _price(epsilon: str | None) -> Any:
    if epsilon is None:
        raise Misconfigured("a question is asked at a price. Pass --epsilon, for example --epsilon 1.")
    return read_number(epsilon, "epsilon")


def _show(result: Any, as_json: bool) -> None:
    show(result.to_dict(), as_json, str(result))
