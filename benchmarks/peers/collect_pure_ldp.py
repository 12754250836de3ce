"""pure-ldp on the task of benchmarks/collect.py: prints one JSON line with what each protocol did, or how it failed."""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time

import numpy as np
from pure_ldp.frequency_oracles import DEClient, DEServer, LHClient, LHServer, UEClient, UEServer


def run(client, server, values, k):  # type: ignore[no-untyped-def]
    start = time.process_time()
    reports = [client.privatise(value) for value in values]
    middle = time.process_time()
    for report in reports:
        server.aggregate(report)
    shares = np.array([server.estimate(value, suppress_warnings=True) for value in range(1, k + 1)]) / len(values)
    return {
        "client": len(values) / (middle - start),
        "server": len(values) / (time.process_time() - middle),
        "shares": shares.tolist(),
    }


def main() -> None:
    k, n, epsilon = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    values = [i * i % k + 1 for i in range(n)]
    pairs = {
        "direct encoding": lambda: (DEClient(epsilon, k), DEServer(epsilon, k)),
        "unary encoding": lambda: (UEClient(epsilon, k, use_oue=True), UEServer(epsilon, k, use_oue=True)),
        "local hashing": lambda: (LHClient(epsilon, k, use_olh=True), LHServer(epsilon, k, use_olh=True)),
    }
    found = {}
    for name, make in pairs.items():
        try:
            found[name] = run(*make(), values, k)
        except Exception as error:  # noqa: BLE001 a failure is a result
            found[name] = {"failure": type(error).__name__}
    print(json.dumps({"version": importlib.metadata.version("pure-ldp"), "found": found}))


if __name__ == "__main__":
    main()
