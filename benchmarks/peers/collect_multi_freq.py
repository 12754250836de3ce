"""multi-freq-ldpy on the task of benchmarks/collect.py: prints one JSON line with what each protocol did."""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time

import numpy as np
from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI, GRR_Client
from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Aggregator_MI, LH_Client
from multi_freq_ldpy.pure_frequency_oracles.SS import SS_Aggregator_MI, SS_Client
from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client


def main() -> None:
    k, n, epsilon = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    values = [i * i % k for i in range(n)]
    tasks = {
        "direct encoding": (lambda v: GRR_Client(v, k, epsilon), lambda r: GRR_Aggregator_MI(r, k, epsilon)),
        "unary encoding": (lambda v: UE_Client(v, k, epsilon, True), lambda r: UE_Aggregator_MI(r, epsilon, True)),
        "local hashing": (lambda v: LH_Client(v, k, epsilon), lambda r: LH_Aggregator_MI(r, k, epsilon)),
        "subset selection": (lambda v: SS_Client(v, k, epsilon), lambda r: SS_Aggregator_MI(r, k, epsilon)),
    }
    found = {}
    for name, (client, server) in tasks.items():
        try:
            client(0)  # compiled at the first call
            start = time.process_time()
            reports = np.array([client(value) for value in values])
            middle = time.process_time()
            shares = server(reports)
            end = time.process_time()
            rates = {"client": n / (middle - start), "server": n / (end - middle)}
            found[name] = {**rates, "shares": np.asarray(shares).tolist()}
        except Exception as error:  # noqa: BLE001 a failure is a result
            found[name] = {"failure": type(error).__name__}
    print(json.dumps({"version": importlib.metadata.version("multi-freq-ldpy"), "found": found}))


if __name__ == "__main__":
    main()
