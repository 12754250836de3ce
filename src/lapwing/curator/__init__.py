"""The curator: the one place that joins a question, the engine, the mechanisms and the ledger.

    read -> plan -> reserve (durable) -> engine -> release (noise) -> settle -> answer

Nothing reads private rows before the charge is durable, and nothing is refunded after. Refusals happen before the
charge and depend on the question and on declared facts only.
"""

from lapwing.curator.curator import Curator
from lapwing.curator.opening import curator_of, load, open_data
from lapwing.terms import STEWARD

__all__ = ["STEWARD", "Curator", "curator_of", "load", "open_data"]
