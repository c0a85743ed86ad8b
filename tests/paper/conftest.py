"""A small release folder: one data set with features and predictions, one without features."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cosmo._core.cache import Cache
from cosmo.data import GZSLDataset, load_glyphs, write_xlsa17
from cosmo.data.splits import Protocol
from cosmo.experts import ESZSL
from cosmo.paper.runner import Runner, find_inputs

SEEDS = {"CUB": 7, "AWA1": 5}  # not those that the package would take by itself
NASTY = '<b>A & "O"</b>'  # of a class


def small_data():
    glyphs = load_glyphs(n_classes=40, samples_per_class=12)
    rename = {glyphs.classes[0]: NASTY}
    return GZSLDataset(
        glyphs.features[:, ::6],
        [rename.get(label, label) for label in glyphs.labels],
        glyphs.descriptions.rename(index=rename),
        glyphs.split,
    )


def write_predictions(data, folder, seed):
    """Write what ESZSL predicts, as the authors wrote theirs: numbers from 1, column 0 a dummy."""
    folder.mkdir(parents=True)
    held, split = Protocol(data, seed=seed).hold_out, data.split
    test = np.concatenate([np.sort(split.test_seen), np.sort(split.test_unseen)])
    stages = {
        "val": (held.seen_train, held.unseen_val, held.gzsl_val),
        "test": (split.trainval, split.test_unseen, test),
    }
    for stage, (train, unseen, rows) in stages.items():
        seen, new = (np.unique(data.codes[part]) for part in (train, unseen))
        expert = ESZSL(gamma=1.0, lam=1.0, temperature=0.1)
        expert.fit(data.features[train], data.labels[train], data.descriptions.iloc[seen])
        asked = np.sort(np.concatenate([seen, new]))
        proba = np.zeros((len(rows), 1 + len(data.classes)), dtype=np.float32)
        proba[:, 1 + asked] = expert.predict_proba(data.features[rows], data.descriptions.iloc[asked])
        np.savez(folder / f"pred_gzsl_{stage}.npz", **{f"pred_{stage}": proba})
        about = {"rows": rows + 1, "y": data.codes[rows] + 1, "seen_classes": seen + 1}
        np.savez(folder / f"rows_{stage}.npz", **about, unseen_classes=new + 1, seen_val_seed=seed)


def write_release(root):
    data = small_data()
    write_xlsa17(data, root / "xlsa17" / "CUB")
    # Of AWA1 there are labels and splits, but no features.
    bare = GZSLDataset(np.zeros((len(data.labels), 1)), data.labels, data.descriptions, data.split)
    write_xlsa17(bare, root / "xlsa17" / "AWA1", features="labels")
    for name, seed in SEEDS.items():
        write_predictions(data, root / "predictions" / "LAGO" / name, seed)
    return root


def alter(path, change):
    """Replace entries of an npz file."""
    with np.load(path) as file:
        entries = dict(file)
    np.savez(path, **(entries | change(entries)))


@pytest.fixture(scope="session")
def release(tmp_path_factory):
    return write_release(tmp_path_factory.mktemp("release"))


@pytest.fixture
def own_release(release, tmp_path):
    """A copy to change."""
    return Path(shutil.copytree(release, tmp_path / "release"))


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return Cache(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def runner(release, cache):
    return Runner(find_inputs(release), cache)


@pytest.fixture
def change():
    return alter


@pytest.fixture(scope="session")
def data():
    return small_data()


@pytest.fixture
def random_outputs():
    """Outputs of experts that know something, from a seed."""
    from cosmo.mixture.outputs import ExpertOutputs

    def draw(seed):
        rng = np.random.default_rng(seed)
        n_seen, n_unseen, rows = int(rng.integers(2, 9)), int(rng.integers(2, 9)), 150
        target = np.r_[np.arange(n_seen + n_unseen), rng.integers(0, n_seen + n_unseen, rows)]
        target = rng.permutation(np.repeat(target, 2))
        joint = rng.dirichlet([0.3] * (n_seen + n_unseen), len(target))
        joint[np.arange(len(target)), target] += rng.exponential(0.3, len(target))
        joint /= joint.sum(axis=1, keepdims=True)
        seen = joint[:, :n_seen] + 1e-6
        names = pd.Index([f"class {i}" for i in range(n_seen + n_unseen)])
        return ExpertOutputs.from_joint(
            seen / seen.sum(axis=1, keepdims=True), joint, names[:n_seen], names[n_seen:], target=target
        )

    return draw
