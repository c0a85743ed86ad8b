import numpy as np
import pandas as pd
import pytest

from cosmo import Cosmo
from cosmo.classifier._prediction import Explanation
from cosmo.data import GZSLDataset, load_glyphs
from cosmo.mixture.smoothing import gate_belief


def made(seen_classes=("a", "b"), unseen_classes=("y", "z"), n=2):
    """Two samples, repeated: one taken for seen, one for unseen."""
    pick = np.arange(n) % 2
    return Explanation(
        seen_classes=pd.Index(seen_classes),
        unseen_classes=pd.Index(unseen_classes),
        seen=np.array([[0.1, 0.9], [0.5, 0.5]])[pick],
        unseen=np.array([[0.2, 0.1], [0.3, 0.4]])[pick],
        gate_score=np.array([0.875, 0.25])[pick],
        p_unseen=np.array([0.125, 0.75])[pick],
        smoothed_seen=np.array([[0.11, 0.91], [0.51, 0.52]])[pick],
        smoothed_unseen=np.array([[0.21, 0.12], [0.31, 0.41]])[pick],
        proba=np.array([[0.15, 0.6, 0.15, 0.1], [0.1, 0.2, 0.3, 0.4]])[pick],
    )


class TestTable:
    def test_best_first(self):
        table = made().table(1)
        assert list(table.index) == ["z", "y", "b", "a"]
        assert list(table.columns) == ["domain", "expert", "smoothed", "result"]
        assert table.loc["z"].tolist() == ["unseen", 0.4, 0.41, 0.4]
        assert table.loc["y"].tolist() == ["unseen", 0.3, 0.31, 0.3]
        assert table.loc["b"].tolist() == ["seen", 0.5, 0.52, 0.2]
        assert table.loc["a"].tolist() == ["seen", 0.5, 0.51, 0.1]

    def test_equals_keep_their_order(self):
        assert list(made().table().index) == ["b", "a", "y", "z"]
        n = 50  # short arrays are sorted stably by any algorithm
        flat, one = np.full((1, n), 0.01), np.array([0.5])
        proba = np.tile([[0.02, 0.0]], n)
        even = Explanation(
            pd.Index(range(n)), pd.Index(range(n, 2 * n)), flat, flat, one, one, flat, flat, proba
        )
        assert list(even.table().index) == [*range(0, 2 * n, 2), *range(1, 2 * n, 2)]
        assert even.prediction[0] == even.table().index[0]


class TestText:
    def test_one_sample(self):
        first, second = str(made()).split("\n\n")
        lines = first.splitlines()
        assert lines[0] == "gate score 0.875, p(unseen) 0.125 -> 'b' (seen)"
        assert lines[1].split() == ["domain", "expert", "smoothed", "result"]
        assert lines[2].split() == ["b", "seen", "0.900", "0.910", "0.600"]
        assert len(lines) == 6
        assert second.splitlines()[0] == "gate score 0.250, p(unseen) 0.750 -> 'z' (unseen)"

    def test_six_classes_at_most(self):
        one = Explanation(
            pd.Index(list("abcde")),
            pd.Index(list("vwxyz")),
            *(np.full((1, 5), 0.2), np.full((1, 5), 0.1)),
            *(np.array([0.5]), np.array([0.5])),
            *(np.full((1, 5), 0.2), np.full((1, 5), 0.1)),
            np.arange(10)[None, :] / 45,
        )
        assert [line.split()[0] for line in str(one).splitlines()[2:]] == ["z", "y", "x", "w", "v", "e"]

    @pytest.mark.parametrize(
        ("n", "parts", "end"), [(5, 5, None), (6, 6, "... and 1 more"), (9, 6, "... and 4 more")]
    )
    def test_five_samples_at_most(self, n, parts, end):
        shown = str(made(n=n)).split("\n\n")
        assert len(shown) == parts
        assert shown[-1].startswith(end or "gate score")

    def test_numbers_as_labels_look_like_numbers(self):
        assert str(made((10, 20), (30, 40))).splitlines()[0].endswith("-> 20 (seen)")


@pytest.fixture(scope="module")
def data():
    glyphs = load_glyphs(n_classes=40, samples_per_class=12)
    # A table in which seen and unseen classes alternate, so that the order of columns matters.
    mixed = glyphs.descriptions.sample(frac=1, random_state=3)
    return GZSLDataset(glyphs.features[:, ::6], glyphs.labels, mixed, glyphs.split)


@pytest.fixture(scope="module", params=["adaptive", "constant", "none"])
def model(request, data, train):
    model = Cosmo(data.descriptions, smoothing=request.param, method="paper")
    return model.fit(*train)


@pytest.fixture(scope="module")
def X(data):
    return data.features[np.r_[data.split.test_seen, data.split.test_unseen]]


class TestOfAModel:
    def test_parts(self, model, X):
        one = model.explain(X)
        outputs, point = model.outputs(X), model.operating_point_
        np.testing.assert_array_equal(one.seen, outputs.seen)
        np.testing.assert_array_equal(one.unseen, outputs.unseen)
        score = model.combination_.gate_.score(outputs)
        np.testing.assert_array_equal(one.gate_score, score)
        expected = 1 / (1 + np.exp((one.gate_score - point.threshold) / point.softness))
        np.testing.assert_allclose(one.p_unseen, expected, rtol=1e-6)
        np.testing.assert_allclose(one.p_unseen, gate_belief(score, point.threshold, point.softness))
        assert len(np.unique(one.p_unseen)) > len(X) / 2

    def test_result(self, model, X):
        one = model.explain(X)
        np.testing.assert_allclose(one.proba.sum(axis=1), 1, rtol=1e-5)
        u = one.p_unseen[:, None]
        scores = np.hstack([one.smoothed_seen * (1 - u), one.smoothed_unseen * u])
        np.testing.assert_allclose(
            one.proba, scores / scores.sum(axis=1, keepdims=True), rtol=1e-4, atol=1e-7
        )

    def test_agrees_with_the_model(self, model, X):
        one = model.explain(X)
        columns = [list(one.classes).index(label) for label in model.classes_]
        assert columns != sorted(columns)
        np.testing.assert_allclose(one.proba[:, columns], model.predict_proba(X), rtol=1e-5, atol=1e-7)
        np.testing.assert_array_equal(one.prediction, model.predict(X))
        assert {one.table(i)["domain"].iloc[0] for i in range(len(X))} == {"seen", "unseen"}

    def test_follows_the_operating_point(self, model, X):
        before = model.explain(X)
        try:
            model.operate_at(threshold=model.operating_point_.threshold + 0.2)
            after = model.explain(X)
            np.testing.assert_array_equal(after.prediction, model.predict(X))
        finally:
            model.operate_at()
        assert (after.p_unseen > before.p_unseen).all()
        # A sample that hangs in the balance is asked about alone, and sums are rounded otherwise.
        np.testing.assert_allclose(after.seen, before.seen, rtol=2e-6)
        np.testing.assert_array_equal(model.explain(X).proba, before.proba)
