"""diffprivlib's integer noise, one value a call as it offers: draws per second by case, as one line of JSON.

Its Geometric inverts a float; its GaussianDiscrete is exact, and takes a scale only by setting the attribute.
At a large scale it flips a coin per unit of noise, so draws are counted for three seconds at most.
"""

from __future__ import annotations

import importlib.metadata
import json
import time
import warnings

from diffprivlib.mechanisms import GaussianDiscrete, Geometric

SAMPLES, SECONDS = 5_000, 3.0

warnings.simplefilter("ignore")


def rate(kind: str, scale: int) -> float:
    """Draws per second of CPU time; at least one draw, however long it takes."""
    if kind == "Laplace":
        mechanism = Geometric(epsilon=1 / scale, sensitivity=1)
    else:
        mechanism = GaussianDiscrete(epsilon=0.5, delta=1e-6, sensitivity=1)
        mechanism._scale = float(scale)
    drawn, start = 0, time.process_time()
    while drawn < SAMPLES and time.process_time() < start + SECONDS:
        mechanism.randomise(0)
        drawn += 1
    return drawn / (time.process_time() - start)


cases = [(kind, scale) for kind in ("Laplace", "Gaussian") for scale in (10, 10**6)]
rates = {f"{kind}, scale {scale:,}": rate(kind, scale) for kind, scale in cases}
print(json.dumps({"version": importlib.metadata.version("diffprivlib"), "rates": rates}))
