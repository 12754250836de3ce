"""All planned mistakes in the code that privacy rests on.

A test checks that the code of each is there exactly once, so that the lists keep up with the code.
"""

from __future__ import annotations

from mutant import Mutant
from mutants_checks import CHECKS
from mutants_engines import ENGINES
from mutants_ledger import LEDGER
from mutants_mechanisms import MECHANISMS
from mutants_questions import QUESTIONS
from mutants_relations import RELATIONS
from mutants_survey import SURVEY

__all__ = ["MUTANTS", "Mutant"]

MUTANTS: tuple[Mutant, ...] = (*QUESTIONS, *CHECKS, *RELATIONS, *MECHANISMS, *LEDGER, *SURVEY, *ENGINES)
