"""diffprivlib's releases for benchmarks/audit.py: called with a task, a JSON value and n, it prints n releases."""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
from diffprivlib import mechanisms, tools

warnings.simplefilter("ignore")


def made(mechanism):
    return lambda value: float(mechanism.randomise(value))


MAKERS = {
    "Laplace, reals": lambda: made(mechanisms.Laplace(epsilon=1, sensitivity=1)),
    "Laplace, integers": lambda: made(mechanisms.Geometric(epsilon=1, sensitivity=1)),
    "Gaussian, reals": lambda: made(mechanisms.GaussianAnalytic(epsilon=1, delta=1e-5, sensitivity=1)),
    "snapping": lambda: made(mechanisms.Snapping(epsilon=1, sensitivity=1, lower=-1000.0, upper=1000.0)),
    "mean with a NaN row": lambda: lambda rows: float(tools.mean(np.array(rows), epsilon=1, bounds=(0, 1))),
}


def main() -> None:
    release, value = MAKERS[sys.argv[1]](), json.loads(sys.argv[2])
    for _ in range(int(sys.argv[3])):
        print(json.dumps(release(value)))


if __name__ == "__main__":
    main()
