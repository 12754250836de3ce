"""L42: was she in the study? Answered by the study's published averages, or by the model that was trained on it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lapwing.answers.formats import load
from lapwing.arrays import Array, Flags, Floats
from lapwing.lab.attacks.attempt import LAPWING, NAIVE, UNPROTECTED, Attacked, View, compare, presence_cap, rate_of
from lapwing.lab.random_people import draw_float_laplace, draw_uniforms, shuffled
from lapwing.lab.targets import health_of_one_year
from lapwing.mechanisms import Laplace

PEOPLE, TRAITS, WIDTH = 100, 5_000, 0.2
TRAINED, BINS = 400, 5
FEATURES = ("age", "income", "family_size", "education", "coinsurance", "health_index")
MOST = (64, 30_000, 14, 20, 100, 100)
"""The public upper bounds of the features."""
STEPS = 4
BUDGET = 1.0
_EXACT = "the private model without noise"


def run_statistics() -> Attacked:
    """5,000 averages over 100 people. The attacker compares a person's traits with them and with everybody's."""
    shares = 0.2 + 0.6 * draw_uniforms(TRAITS)
    people = draw_uniforms(2 * PEOPLE, TRAITS) < shares
    hidden: Flags = np.arange(2 * PEOPLE) < PEOPLE
    counts = people[hidden].sum(axis=0)
    published = {
        UNPROTECTED: counts / PEOPLE,
        NAIVE: counts / PEOPLE + draw_float_laplace(WIDTH, TRAITS),
        LAPWING: Laplace(epsilon=BUDGET, sensitivity=TRAITS)(counts) / PEOPLE,
    }
    scores = {system: (people - shares) @ (mean - shares) for system, mean in published.items()}
    guesses = {system: score > np.median(score) for system, score in scores.items()}
    return Attacked(
        "membership",
        "Membership in published statistics",
        f"is he one of the {PEOPLE} people whose {TRAITS:,} averages were published?",
        compare(
            hidden,
            ("exact averages", guesses[UNPROTECTED]),
            (f"Laplace noise of {WIDTH} on each, however many there are", guesses[NAIVE]),
            ("all averages together at epsilon = 1", guesses[LAPWING]),
            cap=presence_cap(BUDGET),
        ),
        _scores(scores[NAIVE], hidden, "The attacker's score with naive noise"),
        "Every average leaks a little about everyone in it, and thousands of them leak everything. Losses add up.",
    )


def run_model() -> Attacked:
    """A tree that is grown until it fits every person, and a private naive Bayes, which learns little at this size."""
    load("sklearn", what="Attacks on models", install="'lapwing[lab]'")
    from sklearn.tree import DecisionTreeClassifier

    traits, labels = _patients()
    hidden: Flags = np.arange(len(labels)) < TRAINED
    tree = DecisionTreeClassifier(random_state=0).fit(traits[hidden], labels[hidden])
    sure = tree.predict_proba(traits)
    models = {
        UNPROTECTED: sure,
        NAIVE: sure + draw_float_laplace(0.25, *sure.shape),
        LAPWING: _bayes(traits, labels, hidden, Laplace(epsilon=BUDGET, sensitivity=len(FEATURES) + 1)),
        _EXACT: _bayes(traits, labels, hidden, lambda counts: counts),
    }
    scores = {system: model[np.arange(len(labels)), labels] for system, model in models.items()}
    # Half are in: the cut that comes closest to it, above the lower of two equal halves.
    guesses = {system: score > min(np.median(score), np.max(score) - 1e-9) for system, score in scores.items()}
    exact = rate_of(guesses[_EXACT], hidden)
    common = np.mean(labels[~hidden] == np.bincount(labels[hidden]).argmax())
    right = {system: np.mean(model.argmax(axis=1)[~hidden] == labels[~hidden]) for system, model in models.items()}
    return Attacked(
        "model",
        "Membership in a trained model",
        f"is she one of the {TRAINED} patients that the model learned from?",
        compare(
            hidden,
            (f"a tree that fits everyone; {right[UNPROTECTED]:.0%} right on others", guesses[UNPROTECTED]),
            (f"the same tree, its probabilities blurred; {right[NAIVE]:.0%} right", guesses[NAIVE]),
            (f"naive Bayes from counts at epsilon = 1; {right[LAPWING]:.0%} right", guesses[LAPWING]),
            cap=presence_cap(BUDGET),
        ),
        _scores(scores[UNPROTECTED], hidden, "How sure the tree is of a person's true label"),
        "A model that remembers its patients gives them away. This does not show what noise does to a model: the "
        "private one is of another kind, and neither has learned much. On other people it is right for "
        f"{right[LAPWING]:.0%}, always giving the commonest answer for {common:.0%}. Without noise it is right for "
        f"{right[_EXACT]:.0%}, and the attack for {exact.value:.0%}: the kind of model protects, not noise.",
    )


def _scores(score: Floats, hidden: Flags, title: str) -> View:
    lines = {"not in": (score[~hidden], score[:0]), "in": (score[hidden], score[:0])}
    return View(title, "score", "share of people", lines, kind="distributions")


def _patients() -> tuple[Floats, Array]:
    """Traits of twice as many people as are trained on, in random order, and their visits to doctors in four steps."""
    table = health_of_one_year()
    columns = [table[name].cast("double").fill_null(0).to_numpy() for name in FEATURES]
    chosen = shuffled(table.num_rows)[: 2 * TRAINED]
    steps = np.searchsorted([1, 3, 6], table["visits"].to_numpy(), side="right")
    return np.stack(columns, axis=1)[chosen], steps[chosen]


def _bayes(traits: Floats, labels: Array, hidden: Flags, release: Callable[[Array], Array]) -> Floats:
    """P[label] for everyone by naive Bayes, from released counts of public bins by label.

    A person is in one cell of each trait and in one count of labels: the sensitivity is len(FEATURES) + 1.
    """
    bins = np.clip((BINS * traits / np.array(MOST)).astype(np.int64), 0, BINS - 1)
    learned, truth = bins[hidden], labels[hidden]
    cells = [np.bincount(STEPS * learned[:, i] + truth, minlength=STEPS * BINS) for i in range(len(FEATURES))]
    counts = np.maximum(release(np.concatenate([*cells, np.bincount(truth, minlength=STEPS)])), 1)
    logs: Floats = np.tile(np.log(counts[-STEPS:] / counts[-STEPS:].sum()), (len(labels), 1))
    for i, column in enumerate(bins.T):
        table = counts[STEPS * BINS * i : STEPS * BINS * (i + 1)].reshape(BINS, STEPS)
        logs += np.log(table / table.sum(axis=0))[column]
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
