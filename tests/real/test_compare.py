import argparse

import numpy as np
import pandas as pd
import pytest
from scipy.io import loadmat, savemat

from cosmo._core.cache import Cache
from cosmo.cli._options import load_dataset as load
from cosmo.data import GZSLDataset
from cosmo.data.xlsa17 import known_groups
from cosmo.evaluation.compare import Candidate, compare
from cosmo.experts import ESZSL, SJE, make_seen_expert


@pytest.mark.parametrize(
    ("name", "file", "number"),
    [("CUB", "CUB", 312), ("AWA1", "AWA", 85), ("AWA2", "AWA", 85), ("SUN", "SUN", 102)],
)
def test_known_groups_are_those_of_the_attribute_files(name, file, number, data_folder):
    lines = (data_folder / "groups" / f"{file}_attributes.txt").read_text().splitlines()
    named = [line.partition("::")[0].split(maxsplit=1)[-1] for line in lines if line]
    known = known_groups(name, number)
    ours, theirs = (
        pd.factorize(np.array(groups, object))[0] for groups in (known.get_level_values(0), named)
    )
    np.testing.assert_array_equal(ours, theirs)


class AsRecorded(ESZSL):
    as_recorded = True


def test_descriptions_of_cub_as_an_expert_takes_them(data_folder, tmp_path):
    source, folder = data_folder / "xlsa17" / "CUB", tmp_path / "CUB"
    folder.mkdir()
    for name in ("att_splits.mat", "sent_splits.mat"):
        (folder / name).symlink_to(source / name)
    labels = loadmat(source / "res50.mat", variable_names=["labels"])["labels"]
    savemat(folder / "res101.mat", {"features": np.zeros((1, len(labels)), np.float32), "labels": labels})
    args = argparse.Namespace(dataset=str(folder), features="res101", attributes=None, roots=False)
    recorded = load(args, AsRecorded(), descriptions="att_splits", original=False, seed=0).descriptions
    assert recorded.max(axis=None) == 100
    assert recorded.columns.get_level_values(0).nunique() == 28
    sentences = load(args, AsRecorded(), descriptions="sent_splits", original=False, seed=0)
    assert sentences.descriptions.shape == (200, 1024)
    assert sentences.descriptions.columns.nlevels == 1


def test_experts_side_by_side_on_cub(data_folder, tmp_path):
    args = argparse.Namespace(
        dataset=str(data_folder / "xlsa17" / "CUB"), features="res50", attributes=None, roots=False
    )
    whole = load(args, ESZSL(), descriptions="att_splits", original=False, seed=0)
    # Every sixteenth feature, to be quick.
    data = GZSLDataset(
        whole.features[:, ::16], whole.labels, whole.descriptions, whole.split, name=whole.name
    )
    candidates = [
        Candidate("ESZSL", ESZSL(gamma=1000.0, lam=1.0), data, "ESZSL"),
        Candidate("SJE", SJE(learning_rate=10.0, epochs=3), data, "SJE"),
    ]
    table, _ = compare(candidates, Cache(tmp_path), seen=make_seen_expert("lda"), seed=1002)
    found = table.set_index(["method", "way"])
    assert len(found) == 8
    for method in ("ESZSL", "SJE"):
        assert found.loc[(method, "alone"), "t1"] > 10  # chance is 2
        # The paper's claim: weighing the experts is better than leaving the unseen one alone.
        assert found.loc[(method, "COSMO"), "acc_h"] > found.loc[(method, "alone"), "acc_h"] + 3
        assert found.loc[(method, "CS"), "acc_h"] > found.loc[(method, "alone"), "acc_h"]
    assert found.loc[("ESZSL", "alone"), "published_acc_h"] == 21.0
    assert found.loc[("SJE", "alone"), "published_acc_ts"] == 23.5
