"""The local model: respondents randomize before anyone sees their answer, and the collector estimates from reports.

`choose` picks the protocol for shares of declared values, `choose_mean` that for a number, `histogram` that for bins,
`choose_panel` that for a yes or no that changes over time, `FrequentStrings` finds strings without a candidate list.
`central_epsilon` is the epsilon with a trusted shuffler.
"""

from lapwing.collect.choose import Histogram, ProtocolComparison, choose, compare, histogram
from lapwing.collect.encodings import DirectEncoding, Rappor, RapporClient, SubsetSelection, UnaryEncoding
from lapwing.collect.hashing import LocalHashing
from lapwing.collect.local import Reports, Respondent, read_reports
from lapwing.collect.means import HybridMean, MeanEstimate, OneBitMean, choose_mean
from lapwing.collect.panel import PanelDevices, YesNoPanel, choose_panel
from lapwing.collect.protocol import Frequencies, FrequencyProtocol, JointTable, estimate_joint
from lapwing.collect.shuffle import central_epsilon
from lapwing.collect.strings import FrequentFound, FrequentStrings

__all__ = [
    "DirectEncoding", "Frequencies", "FrequencyProtocol", "FrequentFound", "FrequentStrings", "Histogram", "HybridMean",
    "JointTable", "LocalHashing", "MeanEstimate", "OneBitMean", "PanelDevices", "ProtocolComparison", "Rappor",
    "RapporClient", "Reports", "Respondent", "SubsetSelection", "UnaryEncoding", "YesNoPanel", "central_epsilon",
    "choose", "choose_mean", "choose_panel", "compare", "estimate_joint", "histogram", "read_reports",
]  # fmt: skip
