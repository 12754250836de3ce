"""OpenDP's releases for benchmarks/audit.py: called with a task, a JSON value and n, it prints n releases."""

from __future__ import annotations

import json
import sys

import opendp.prelude as dp

dp.enable_features("contrib")


def scalar(kind, then):
    domain = dp.atom_domain(T=kind, nan=False) if kind is float else dp.atom_domain(T=kind)
    return (domain, dp.absolute_distance(T=kind)) >> then


MAKERS = {
    "Laplace, reals": lambda: scalar(float, dp.m.then_laplace(scale=1.0)),
    "Laplace, integers": lambda: scalar(int, dp.m.then_laplace(scale=1.0)),
    "Gaussian, reals": lambda: scalar(float, dp.m.then_gaussian(scale=1.0)),
    "Gaussian, integers": lambda: scalar(int, dp.m.then_gaussian(scale=1.0)),
}


def main() -> None:
    release, value = MAKERS[sys.argv[1]](), json.loads(sys.argv[2])
    for _ in range(int(sys.argv[3])):
        print(json.dumps(release(value)))


if __name__ == "__main__":
    main()
