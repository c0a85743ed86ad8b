import numpy as np
import pandas as pd
import pytest

from cosmo._core.validation import as_class_index
from cosmo.classifier.combinations import GatedMixture
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.mixture.smoothing import top_k

SEEN_CLASSES, UNSEEN_CLASSES = pd.Index(["a", "b", "c"]), pd.Index(["y", "z"])
SEEN = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.3, 0.4, 0.3], [0.5, 0.25, 0.25]])
JOINT = np.array(
    [
        [0.5, 0.1, 0.1, 0.1, 0.2],
        [0.1, 0.2, 0.3, 0.4, 0.0],
        [0.2, 0.2, 0.2, 0.1, 0.3],
        [0.3, 0.4, 0.3, 0.0, 0.0],
    ]
)
TARGET = np.array([0, 3, 4, 3])


def make(**changes):
    parts = {
        "seen_classes": SEEN_CLASSES,
        "unseen_classes": UNSEEN_CLASSES,
        "seen": SEEN,
        "unseen": JOINT[:, 3:],
        "target": TARGET,
    }
    return ExpertOutputs(**(parts | changes))


def joint(**changes):
    parts = {
        "seen": SEEN,
        "joint": JOINT,
        "seen_classes": SEEN_CLASSES,
        "unseen_classes": UNSEEN_CLASSES,
        "target": TARGET,
    }
    return ExpertOutputs.from_joint(**(parts | changes))


class TestSummary:
    def test_sizes_and_classes(self):
        out = make()
        assert (len(out), out.n_seen, out.n_unseen) == (4, 3, 2)
        assert list(out.classes) == ["a", "b", "c", "y", "z"]

    def test_best_classes(self):
        out = make()
        np.testing.assert_array_equal(out.seen_choice, [0, 2, 1, 0])
        np.testing.assert_array_equal(out.unseen_choice, [1, 0, 1, 0])

    def test_best_probabilities_are_joint_only_for_adaptive(self):
        seen, unseen = make().best("adaptive")
        np.testing.assert_allclose(seen, [0.7, 0.6, 0.4, 0.5])
        np.testing.assert_allclose(unseen, [0.2, 0.4, 0.3, 0.0])
        for smoothing in ("none", "constant"):
            seen, unseen = make().best(smoothing)
            np.testing.assert_allclose(seen, [0.7, 0.6, 0.4, 0.5])
            np.testing.assert_allclose(unseen, [2 / 3, 1, 0.75, 0.5])  # no mass counts as uniform

    def test_true_side_and_gain(self):
        out = make()
        np.testing.assert_array_equal(out.is_seen, [True, False, False, False])
        np.testing.assert_allclose(out.gain, [1 / 3, 1 / 4, 1 / 2, 1 / 4])

    def test_without_true_classes(self):
        out = make(target=None)
        assert len(out.unseen_choice) == 4
        for name in ("labels", "is_seen", "gain"):
            with pytest.raises(ValueError, match="no true classes; give `target`"):
                getattr(out, name)


class TestFromJoint:
    def test_the_unseen_part_is_not_normalised(self):
        np.testing.assert_array_equal(joint().unseen, JOINT[:, 3:])

    def test_stacking_reads_the_unseen_expert_only(self):
        out = joint()
        np.testing.assert_array_equal(out.stacking_choice, [0, 2, 0, 1])
        np.testing.assert_allclose(out.stacking_margin, [0.3, -0.1, -0.1, 0.4])

    def test_without_joint_there_is_no_stacking(self):
        with pytest.raises(ValueError, match="lack the unseen expert's scores on seen classes"):
            _ = make().stacking_margin


class TestRows:
    @pytest.mark.parametrize(
        "rows", [np.array([3, 1]), np.array([False, True, False, True]), slice(1, 3)], ids=str
    )
    def test_all_parts_are_cut_alike(self, rows):
        part, whole = joint()[rows], joint()
        np.testing.assert_array_equal(part.seen, SEEN[rows])
        np.testing.assert_array_equal(part.unseen, JOINT[rows, 3:])
        np.testing.assert_array_equal(part.target, TARGET[rows])
        np.testing.assert_allclose(part.stacking_margin, whole.stacking_margin[rows])
        np.testing.assert_array_equal(part.stacking_choice, whole.stacking_choice[rows])

    def test_the_gain_belongs_to_the_rows_there_are(self):
        np.testing.assert_allclose(joint()[[1, 2]].gain, [0.5, 0.5])

    def test_what_is_known_already_is_cut_too(self):
        whole = joint()
        for smoothing in ("adaptive", "none"):
            whole.best(smoothing)
        whole.top_seen(2, 3.0), whole.top_unseen(1), whole.gain
        rows = np.array([2, 0])
        part, anew = whole[rows], make(seen=SEEN[rows], unseen=JOINT[rows, 3:], target=TARGET[rows])
        kept = vars(part)
        assert kept["_tops"].keys() == {("seen", 2, 3.0), ("unseen", 1, 1.0)}
        assert "gain" not in kept
        for name in ("seen_choice", "unseen_choice", "gain"):
            np.testing.assert_array_equal(getattr(part, name), getattr(anew, name))
        for smoothing in ("adaptive", "none"):
            np.testing.assert_array_equal(part.best(smoothing), anew.best(smoothing))
        np.testing.assert_array_equal(part.top_seen(2, 3.0), top_k(SEEN[rows], 2, 3.0))
        np.testing.assert_array_equal(part.top_unseen(1), JOINT[rows, 3:].max(axis=1, keepdims=True))

    def test_optional_parts_stay_absent(self):
        part = make(target=None)[[0]]
        assert part.target is None
        assert part.stacking_seen is None


class TestErrors:
    @pytest.mark.parametrize(
        ("build", "changes", "message"),
        [
            (
                make,
                {"seen": SEEN * [[0.7], [1], [1], [1]]},
                r"the seen expert's .* must sum to 1.*row 0 sums to 0\.7",
            ),
            (make, {"unseen": np.full((4, 2), 0.6)}, r"unseen expert's probabilities must sum to at most 1"),
            (make, {"unseen": JOINT[:3, 3:]}, "seen expert has 4 rows, the unseen expert 3"),
            (make, {"seen_classes": pd.Index(["a", "b"])}, "3 columns for 2 seen classes"),
            (make, {"unseen_classes": pd.Index(["x", "y", "z"])}, "2 columns for 3 unseen classes"),
            (joint, {"joint": JOINT[:, :4]}, "4 columns of joint probabilities for 5 classes"),
            (make, {"unseen_classes": pd.Index([]), "unseen": np.zeros((4, 0))}, "there is no unseen class"),
            (joint, {"joint": SEEN, "unseen_classes": pd.Index([])}, "there is no unseen class"),
            (make, {"target": TARGET[:2]}, "target"),
            (make, {"target": np.array([0, 1, 2, -1])}, "target"),
            (make, {"target": np.array([0, 1, 2, 5])}, "target"),
        ],
    )
    def test_parts_that_do_not_fit(self, build, changes, message):
        with pytest.raises(ValueError, match=message):
            build(**changes)

    @pytest.mark.parametrize("side", ["seen", "unseen"])
    def test_logits(self, side):
        values = np.log(SEEN if side == "seen" else JOINT[:, :2])
        with pytest.raises(ValueError, match=f"the {side} expert's.*logits must go through a soft-max"):
            make(**{side: values})

    @pytest.mark.parametrize("side", ["seen", "unseen"])
    def test_nan(self, side):
        values = (SEEN if side == "seen" else JOINT[:, 3:]).copy()
        values[2, 0] = np.nan
        with pytest.raises(ValueError, match=f"the {side} expert's.*NaN or infinite values, first in row 2"):
            make(**{side: values})

    @pytest.mark.parametrize("labels", [("a", "z"), (("s", 1), ("u", 1))])
    def test_both_seen_and_unseen(self, labels):
        shared, other = labels
        with pytest.raises(ValueError, match="both seen and unseen: ") as error:
            make(
                seen_classes=as_class_index([shared, "b", "c"]),
                unseen_classes=as_class_index([other, shared]),
            )
        assert repr(shared) in str(error.value)


def test_whole_numbers_are_treated_as_probabilities():
    hard, real = (
        make(seen=np.eye(4, 3, dtype=t) + np.eye(4, 3, -3, dtype=t), unseen=np.eye(4, 2, dtype=t))
        for t in (int, float)
    )
    model = GatedMixture(softnesses=(0.3,)).fit(real)
    np.testing.assert_allclose(model.scores(hard), model.scores(real))


def test_the_order_in_memory_does_not_matter():
    rng = np.random.default_rng(0)
    seen, both = (rng.dirichlet([0.3] * n, 50).astype(np.float32) for n in (60, 90))
    classes = pd.RangeIndex(60), pd.RangeIndex(60, 90)
    rows, columns = (
        ExpertOutputs.from_joint(np.asarray(seen, order=order), np.asarray(both, order=order), *classes)
        for order in "CF"
    )
    np.testing.assert_array_equal(rows.top_seen(5, 3.0), columns.top_seen(5, 3.0))
    for one, other in zip(rows.best("none"), columns.best("none"), strict=True):
        np.testing.assert_array_equal(one, other)
