"""Other names of aggregates, in the dialect and in others, that mean the same.

A quantile is approximate here under every name, so QUANTILE, QUANTILE_DISC and APPROX_QUANTILE are QUANTILE_CONT.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

ALIASES: dict[str, type[exp.Expr]] = {
    "mean": exp.Avg,
    "favg": exp.Avg,
    "fsum": exp.Sum,
    "kahan_sum": exp.Sum,
    "sumkahan": exp.Sum,
    "sum_no_overflow": exp.Sum,
    "var": exp.Variance,
    "varp": exp.VariancePop,
    "std": exp.Stddev,
    "stdevp": exp.StddevPop,
    "count_big": exp.Count,
}
"""Functions of one argument that the parser has no class for, by name."""

_QUANTILES: dict[type[exp.Expr], str] = {
    exp.Quantile: "quantile",
    exp.ApproxQuantile: "quantile",
    exp.PercentileDisc: "expression",
}


def rename_aggregates(parts: Iterable[exp.Expr]) -> None:
    """Puts the usual node in place of each alias. A node with more parts than it has a meaning for stays, and is
    refused."""
    for node in parts:
        meant = _meant(node)
        if meant is not None:
            node.replace(meant)


def gather_grouping_sets(parts: Iterable[exp.Expr]) -> None:
    """Puts ROLLUP, CUBE and GROUPING SETS beside the plain keys of GROUP BY, where newer parsers list them."""
    kinds = {exp.Rollup: "rollup", exp.Cube: "cube", exp.GroupingSets: "grouping_sets"}
    for group in parts:
        for node in list(group.expressions) if isinstance(group, exp.Group) else []:
            if type(node) in kinds:
                group.append(kinds[type(node)], node.pop())


def _meant(node: exp.Expr) -> exp.Expr | None:
    parts = {name: value for name, value in node.args.items() if value}
    match node:
        case exp.Anonymous() if isinstance(node.this, str):
            name, arguments = node.this.lower(), node.expressions
            if name == "count_star" and not arguments:
                return exp.Count(this=exp.Star())
            return ALIASES[name](this=arguments[0]) if name in ALIASES and len(arguments) == 1 else None
        case exp.ApproxDistinct() if set(parts) == {"this"}:
            return exp.Count(this=exp.Distinct(expressions=[node.this]))
        case exp.PercentileDisc() if set(parts) == {"this"}:
            return exp.PercentileCont(this=node.this)
        case _ if type(node) in _QUANTILES and set(parts) == {"this", _QUANTILES[type(node)]}:
            return exp.PercentileCont(this=node.this, expression=parts[_QUANTILES[type(node)]])
    return None
