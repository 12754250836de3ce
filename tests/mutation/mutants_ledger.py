"""The mistakes in the ledger, and in putting the engine's numbers where they belong."""

from __future__ import annotations

from mutant import Mutant

PROMISED = (
    *("tests/ledger/test_promises.py", "tests/ledger/test_copies.py", "tests/ledger/test_ledger.py"),
    *("tests/ledger/test_store.py", "tests/ledger/test_sqlite.py"),
)
GROUPED = ("tests/plan/test_group_order.py",)

LEDGER: tuple[Mutant, ...] = (
    # what may be spent
    Mutant(
        "ledger: everything fits",
        "Ledger._refusal",
        "add_costs(used, price)",
        "add_costs(price, price)",
        "the budget is never spent",
        PROMISED,
    ),
    Mutant(
        "ledger: allowances do not count",
        "Ledger._refusal",
        "(*limits, *book.allowances(analyst, last))",
        "limits",
        "one analyst spends what belongs to others",
        PROMISED,
    ),
    Mutant(
        "ledger: a charge is not added",
        "CheckedBook.append",
        "spent, own = (add_costs(spent, cost), add_costs(own, cost))",
        "own = add_costs(own, cost)",
        "the sum of all charges stays what it was",
        PROMISED,
    ),
    Mutant(
        "ledger: the sum of whoever came last",
        "CheckedBook.own",
        "last is not None and last.analyst == analyst",
        "last is not None",
        "an analyst's charges are forgotten when somebody else asks",
        PROMISED,
    ),
    Mutant(
        "ledger: every key is new",
        "Ledger.reserve_all",
        "any(earlier)",
        "not requests",
        "a retry is not recognised",
        PROMISED,
    ),
    # that it is this ledger, whole and newest
    Mutant(
        "ledger: nobody asks the witness",
        "CheckedBook.check",
        "None if known == first else head_fault(self._book, self._head(rows), source, known)",
        "None",
        "an older copy is served, and spends again",
        PROMISED,
    ),
    Mutant(
        "ledger: content may differ from its hash",
        "intact",
        "entry.hash != entry.digest",
        "not entry.hash",
        "an entry that was changed is believed",
        PROMISED,
    ),
    Mutant(
        "ledger: entries need not follow each other",
        "CheckedBook.check",
        "link_fault(last, entry, intact=equal is not None) or sum_fault(last, entry, self._accounting)",
        "sum_fault(last, entry, self._accounting)",
        "an entry that was put in is believed",
        PROMISED,
    ),
    Mutant(
        "ledger: sums need not follow",
        "CheckedBook.check",
        "link_fault(last, entry, intact=equal is not None) or sum_fault(last, entry, self._accounting)",
        "link_fault(last, entry, intact=equal is not None)",
        "a sum that was made smaller is believed",
        PROMISED,
    ),
    Mutant(
        "ledger: any charge may be answered",
        "CheckedBook.settle",
        "charge.hash != paid.hash or charge.kind != EntryKind.RESERVE",
        "charge.kind != EntryKind.RESERVE",
        "an answer without a charge of its own",
        PROMISED,
    ),
    Mutant(
        "ledger: charges are not synced",
        "SqliteStore.writing",
        '"FULL" if durable else "NORMAL"',
        '"NORMAL"',
        "a charge is lost with the power, and its answer was sent",
        PROMISED,
    ),
    Mutant(
        "ledger: an interrupt forgets how durable commits are",
        "SqliteStore.writing",
        "self._durable = None",
        "pass",
        "after Ctrl-C at the wrong moment charges are not synced",
        PROMISED,
    ),
    Mutant(
        "ledger: in memory nothing is rolled back",
        "MemoryStore.reading",
        "self._memory.connection.in_transaction",
        "False",
        "what an interrupt left behind counts as charged, or as answered",
        PROMISED,
    ),
    # what the engine counted
    Mutant(
        "groups: only the lower half of a sum",
        "integers",
        "(high == low[:, None] >> 63).all() and (low > -_NARROW).all() and (low < _NARROW).all()",
        "(low > -_NARROW).all() and (low < _NARROW).all()",
        "a large sum wraps, and its unit moves it by more than its reach",
        GROUPED,
    ),
    Mutant(
        "groups: strangers are counted in the first group",
        "Public.places",
        "known.get(value, -1)",
        "known.get(value, 0)",
        "rows of a value that is not public are counted",
        GROUPED,
    ),
)
