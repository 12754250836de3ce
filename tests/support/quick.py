"""`lapwing`, but a table may declare an `answer_time` below a second: tests of servers would wait for nothing else.

Importing it does the same for this process. The workers of a server import it too, as the main module of their parent.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

if sys.path[0] == str(Path(__file__).parent):
    sys.path.pop(0)  # modules of the same name as others stand there

import lapwing.curator.settings

lapwing.curator.settings._LEAST_TIME = Fraction(1, 100)

LAPWING = [sys.executable, __file__]

if __name__ == "__main__":
    from lapwing.cli.main import run

    run()
