"""diffprivlib's releases for benchmarks/accuracy.py.

Mean and variance take the number of rows as public and protect the change of one row, a weaker promise. It selects no
keys, and without bounds it takes those of the data, which is not private: neither is measured.
"""

from __future__ import annotations

import warnings

import numpy as np
from accuracy_tasks import EPSILON, LEVELS, Rows, main
from diffprivlib import tools

warnings.simplefilter("ignore")


def bounded(tool):
    def maker(rows: Rows):
        values = np.array(rows.values)
        return lambda: float(tool(values, epsilon=EPSILON, bounds=rows.bounds))

    return maker


def count(rows: Rows):
    above = np.array(rows.values) > rows.split
    return lambda: float(tools.count_nonzero(above, epsilon=EPSILON))


def quantile(level: float):
    def maker(rows: Rows):
        values = np.array(rows.values)
        return lambda: rows.rounded(float(tools.quantile(values, level, epsilon=EPSILON, bounds=rows.bounds)))

    return maker


MAKERS = {"count": count, "sum": bounded(tools.sum), "mean": bounded(tools.mean), "variance": bounded(tools.var)}
MAKERS |= {name: quantile(level) for name, level in LEVELS.items()}

if __name__ == "__main__":
    main("diffprivlib", MAKERS)
