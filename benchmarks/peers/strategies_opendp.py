"""OpenDP's b-ary tree for benchmarks/strategies.py: cells without anybody, so that what comes out is the error.

    python strategies_opendp.py '{"sizes": [64], "epsilon": 1.0, "rho": 0.5, "repetitions": 10}'

The branching factor is the one that OpenDP chooses itself, and its consistency step follows. Prints the errors of the
prefixes as JSON, by noise and size: one list a repetition.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys

import opendp.prelude as dp

dp.enable_features("contrib")


def release(size: int, noise: str, price: float):
    """A function that gives the noisy cells of a domain of this size."""
    cells = dp.vector_domain(dp.atom_domain(T=int))
    branching = dp.t.choose_branching_factor(size)
    metric = dp.l1_distance(T=int) if noise == "laplace" else dp.l2_distance(T=int)
    tree = dp.t.make_b_ary_tree(cells, metric, size, branching)
    then = dp.m.then_laplace if noise == "laplace" else dp.m.then_gaussian
    noisy = dp.binary_search_chain(lambda scale: tree >> then(scale), 1, price)
    return noisy >> dp.t.make_consistent_b_ary_tree(branching)


def prefixes(cells: list[float]) -> list[float]:
    total, sums = 0.0, []
    for cell in cells:
        total += cell
        sums.append(total)
    return sums


def main() -> None:
    asked = json.loads(sys.argv[1])
    found: dict[str, dict[str, list[list[float]]]] = {}
    failures = {}
    for noise, price in (("laplace", asked["epsilon"]), ("gaussian", asked["rho"])):
        try:
            for size in asked["sizes"]:
                mechanism, nobody = release(size, noise, price), [0] * size
                runs = [prefixes(mechanism(nobody)[:size]) for _ in range(asked["repetitions"])]
                found.setdefault(noise, {})[str(size)] = runs
        except Exception as error:  # noqa: BLE001 (told to the reader of the table)
            failures[noise] = str(error).strip().splitlines()[0]
    print(json.dumps({"version": importlib.metadata.version("opendp"), "found": found, "failures": failures}))


if __name__ == "__main__":
    main()
