"""OpenDP's exact integer noise: draws per second by case, as one line of JSON."""

from __future__ import annotations

import importlib.metadata
import json
import time

import opendp.prelude as dp

SAMPLES, ROUNDS = 20_000, 3

dp.enable_features("contrib")


def rate(kind: str, scale: int) -> float:
    """One call on a vector of integers, best CPU time."""
    vectors = dp.vector_domain(dp.atom_domain(T="i64"))
    if kind == "Laplace":
        measurement = dp.m.make_laplace(vectors, dp.l1_distance(T="i64"), float(scale))
    else:
        measurement = dp.m.make_gaussian(vectors, dp.l2_distance(T="f64"), float(scale))
    values = [0] * SAMPLES
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        measurement(values)
        times.append(time.process_time() - start)
    return SAMPLES / min(times)


cases = [(kind, scale) for kind in ("Laplace", "Gaussian") for scale in (10, 10**6)]
rates = {f"{kind}, scale {scale:,}": rate(kind, scale) for kind, scale in cases}
print(json.dumps({"version": importlib.metadata.version("opendp"), "rates": rates}))
