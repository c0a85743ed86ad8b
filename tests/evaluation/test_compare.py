import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_limits

from cosmo._core.cache import Cache
from cosmo._core.parallel import Workers
from cosmo.data import GZSLDataset
from cosmo.evaluation.compare import Candidate, compare, published_rows
from cosmo.experts import DEM, ESZSL, LAGO, SJE, SoftmaxRegression, make_seen_expert
from cosmo.metrics.accuracy import gzsl_scores

QUICK = ESZSL(gamma=1.0, lam=1.0, temperature=0.05)
MEASURES = ["acc_ts", "acc_tr", "acc_h", "ausuc"]
PUBLISHED = ["acc_ts", "acc_tr", "acc_h", "ausuc", "t1"]


def copy(data, **changes):
    values = {
        "features": data.features,
        "labels": data.labels,
        "descriptions": data.descriptions,
        "split": data.split,
        "name": data.name,
    }
    return GZSLDataset(**(values | changes))


@pytest.fixture(scope="module")
def cub(data):
    """The same under a name that papers know, with fewer features."""
    return copy(data, features=data.features[:, ::6], name="CUB")


@pytest.fixture(scope="module")
def candidates(cub):
    return [
        Candidate("first", QUICK, cub, "ESZSL"),
        Candidate("second", SJE(learning_rate=3.0, epochs=2), cub, "SJE"),
        Candidate("third", LAGO("semantic-hard", epochs=2), cub, "LAGO"),
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("compare")


@pytest.fixture(scope="module")
def table(candidates, folder):
    with threadpool_limits(1):  # as in the processes of joblib: threads may round differently
        return compare(candidates, Cache(folder))[0]


class TestTable:
    def test_columns(self, table):
        measured = [name + end for name in MEASURES for end in ("", "_low", "_high")]
        published = [f"published_{name}" for name in PUBLISHED]
        assert set(table.columns) == {"method", "way", "t1", "cpu_seconds", "note", *measured, *published}
        assert table[["t1", "cpu_seconds", *measured]].notna().all(axis=None)

    def test_numbers_are_percentages_inside_their_intervals(self, table):
        for name in MEASURES:
            assert table[name].between(0, 100).all()
            assert (table[f"{name}_low"] < table[f"{name}_high"]).all()
            assert table[name].between(table[f"{name}_low"], table[f"{name}_high"]).all()
        mean = 2 * table["acc_ts"] * table["acc_tr"] / (table["acc_ts"] + table["acc_tr"])
        np.testing.assert_allclose(table["acc_h"], mean)
        assert table["acc_h"].max() > 10

    @pytest.mark.parametrize(("method", "expert"), [("first", "ESZSL"), ("second", "SJE"), ("third", "LAGO")])
    def test_published_numbers(self, method, expert, table):
        expected = published_rows(expert, "CUB")
        found = table[table["method"] == method].set_index("way")
        assert found.loc["calibrated"].filter(like="published_").isna().all()
        found = found.drop("calibrated")
        for name in PUBLISHED:
            np.testing.assert_array_equal(found[f"published_{name}"], expected[name])
        assert list(found["note"]) == list(expected["note"])
        assert found.loc["alone", "published_acc_h"] > 20

    def test_nothing_was_published_for_other_data(self, cub, tmp_path):
        birds = copy(cub, name="birds")
        one = Candidate("x", QUICK, birds, "ESZSL")
        found, _ = compare([one], Cache(tmp_path), seen=make_seen_expert("lda"))
        assert found.filter(like="published_").isna().all(axis=None)
        assert set(found["note"]) == {""}

    def test_results_hold_the_outputs(self, cub, tmp_path):
        one = Candidate("x", QUICK, cub)
        found, (result,) = compare([one], Cache(tmp_path), seen=make_seen_expert("lda"))
        assert (result.name, list(result.fitted)) == ("x", list(found["way"][:-1]))
        sides = result.test.seen_classes, result.test.unseen_classes
        for (_, rule), acc_h in zip(result.fitted.items(), found["acc_h"][:-1], strict=True):
            guess = result.test.classes[rule.predict(result.test)]
            scores = gzsl_scores(result.test.classes[result.test.labels], guess, *sides)
            assert 100 * scores.acc_h == pytest.approx(acc_h)


class TestTraining:
    def test_what_is_kept_is_not_trained_again(self, candidates, table, folder, monkeypatch):
        def fails(*_args, **_options):
            raise AssertionError("trained again")

        for expert in (ESZSL, SJE, LAGO, SoftmaxRegression):
            monkeypatch.setattr(expert, "fit", fails)
        counts = []
        again, _ = compare(candidates[::-1], Cache(folder), report=lambda *count: counts.append(count))
        assert counts == [(3, 3)]
        order = pd.Categorical(again["method"], ["first", "second", "third"])
        pd.testing.assert_frame_equal(
            again.iloc[np.argsort(order.codes, kind="stable")].reset_index(drop=True), table
        )

    def test_a_method_added_later_costs_itself_only(self, candidates, table, folder, cub):
        counts = []
        more = [*candidates, Candidate("more", ESZSL(gamma=3.0, lam=1.0, temperature=0.05), cub)]
        found, _ = compare(more, Cache(folder), report=lambda *count: counts.append(count))
        assert counts == [(3, 4), (4, 4)]
        pd.testing.assert_frame_equal(found.iloc[:12], table)

    def test_two_processes_give_the_same(self, candidates, table, tmp_path):
        counts = []
        found, _ = compare(
            candidates, Cache(tmp_path), workers=Workers(2), report=lambda *count: counts.append(count)
        )
        pd.testing.assert_frame_equal(found.drop(columns="cpu_seconds"), table.drop(columns="cpu_seconds"))
        assert counts == [(number, 3) for number in range(4)]

    def test_a_failure_keeps_what_was_finished(self, cub, tmp_path):
        bad = Candidate("bad", ESZSL(gamma=-1.0, lam=1.0, temperature=1.0), cub)
        with pytest.raises(ValueError, match="gamma must be positive"):
            compare([Candidate("good", QUICK, cub), bad], Cache(tmp_path), seen=make_seen_expert("lda"))
        kinds = {path.name.split("-")[0] for path in tmp_path.iterdir()}
        assert kinds == {"choice", "seen", "unseen", "trained"}

    def test_seen_expert_and_seed(self, cub, tmp_path):
        one = [Candidate("x", QUICK, cub)]
        cache = Cache(tmp_path)
        tables = [
            compare(one, cache, seen=make_seen_expert(name), seed=seed)[0].set_index("way")
            for name, seed in (("lda", 0), ("knn", 0), ("lda", 1))
        ]
        # Alone, the unseen expert of given parameters depends on neither.
        assert len({table.loc["alone", "acc_h"] for table in tables}) == 1
        assert len({table.loc["COSMO", "ausuc"] for table in tables[:2]}) == 2
        assert len(list(tmp_path.glob("trained-*"))) == 3

    def test_every_contender_has_its_own_order_of_classes(self, cub, tmp_path):
        backwards = copy(cub, descriptions=cub.descriptions.iloc[::-1])
        found, _ = compare(
            [Candidate("one", QUICK, cub), Candidate("other", QUICK, backwards)],
            Cache(tmp_path),
            seen=make_seen_expert("lda"),
        )
        one, other = (found[found["method"] == name].set_index("way") for name in ("one", "other"))
        assert other.loc["COSMO", "acc_tr"] == pytest.approx(one.loc["COSMO", "acc_tr"], abs=5)

    def test_nobody_to_compare(self, tmp_path):
        with pytest.raises(ValueError, match="no candidates"):
            compare([], Cache(tmp_path))


def test_networks_leave_no_checkpoints(cub, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr("cosmo.experts._network._SECONDS", 0.0)
    monkeypatch.setattr(DEM, "grid", {"epochs": (1, 2)})
    found, _ = compare([Candidate("DEM", DEM(hidden=8), cub)], Cache(tmp_path), seen=make_seen_expert("lda"))
    assert list(found["way"]) == ["alone", "CS", "COSMO", "calibrated"]
    assert list(tmp_path.glob("training-*")) == []
    assert [path for path in tmp_path.iterdir() if path.name.startswith(".")] == []
