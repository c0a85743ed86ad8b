"""Two names for one method would share a row in every table."""

from itertools import combinations

import numpy as np
import pytest
from compositional import Task
from sklearn.base import clone
from test_unseen_experts import DECIDED, suited

from cosmo.experts._generative import GenerativeExpert

pytest.importorskip("torch")


def test_no_two_methods_agree_on_all_rows():
    task = Task(rows=16, noise=2.0)  # noise leaves experts something to disagree about
    guesses = {}
    for name, decided in DECIDED.items():
        own, expert = suited(decided, task), clone(decided)
        if isinstance(expert, GenerativeExpert):
            expert.set_params(epochs=6)  # after one, all of them predict one class
        expert.fit(own.X, own.y, own.table)
        guesses[name] = expert.scores(np.r_[own.X, own.X_new], own.table).argmax(axis=1)
    assert len(guesses) > 10
    for one, other in combinations(guesses, 2):
        assert (guesses[one] != guesses[other]).mean() > 0.05, f"{one} and {other} agree"
