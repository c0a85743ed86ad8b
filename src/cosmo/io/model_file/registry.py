"""Registry of the classes that a model file may contain; no other class is built from a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import clone

State = dict[str, Any]


@dataclass(frozen=True)
class Known:
    """Class that can be stored.

    An estimator is built from its parameters, and gets its learned attributes: names that end in an
    underscore, and those in `also`.

    The name of the class in files is the key in `KNOWN`, which never changes.
    """

    module: str
    name: str
    leave_out: frozenset[str] = frozenset()  # learned attributes that prediction does not need
    also: frozenset[str] = frozenset()  # learned attributes without an underscore at the end
    pack: Callable[[Any], State] = vars  # returns the state of an object
    restore: Callable[[Any], None] = lambda value: None  # completes an object that was built from a file
    file_names: Mapping[str, str] = field(default_factory=dict)  # of fields that were renamed since

    def load(self) -> type[Any]:
        """Import the class."""
        kind: type[Any] = getattr(import_module(self.module), self.name)
        return kind

    def is_learned(self, attribute: str) -> bool:
        """Return whether an attribute of an estimator is learned."""
        return (attribute.endswith("_") and not attribute.startswith("_")) or attribute in self.also

    def stores(self, attribute: str) -> bool:
        """Return whether an attribute of an estimator is stored."""
        parameter = attribute in self.load()._get_param_names()
        return attribute not in self.leave_out and (parameter or self.is_learned(attribute))


def _cosmo_state(model: Any) -> State:
    state = dict(vars(model))
    # The experts have the current table; the hold-out is of no use without the training rows.
    state |= {"descriptions": None, "hold_out": None}
    # Parameters of the constructor may have been fitted before.
    state |= {part: clone(state[part]) for part in ("seen", "unseen", "gate") if state[part] is not None}
    state["validation_outputs_"] = model.combination_.summary(model.validation_outputs_)
    return state


def _restore_cosmo(model: Any) -> None:
    experts = model.experts_
    if not np.array_equal(experts.seen.classes_, np.arange(len(experts.seen_classes))):
        raise ValueError("the seen expert's labels are not the positions of the seen classes")
    model.descriptions = experts.descriptions


def _generator_state(expert: Any) -> State:
    # Synthesis uses the running mean of the generator's weights only.
    state = dict(vars(expert))
    if "weights_" in state:
        state["weights_"] = {k: value for k, value in expert.weights_.items() if k.startswith("mean ")}
    return state


def _neighbours_state(classifier: Any) -> State:
    state: State = classifier.get_params(deep=False)
    if hasattr(classifier, "classes_"):
        state |= {"rows_": classifier._fit_X, "labels_": classifier.classes_[classifier._y]}
    return state


def _restore_neighbours(classifier: Any) -> None:
    # The search tree is not made of plain arrays, so it is built again.
    learned = vars(classifier)
    if "rows_" in learned:
        classifier.fit(learned.pop("rows_"), learned.pop("labels_"))


def _classes(package: str, paths: str) -> dict[str, Known]:
    """Return classes given as "module.Name module.Name ..." within a package."""
    pairs = [path.split(".") for path in paths.split()]
    return {name: Known(f"{package}.{module}", name) for module, name in pairs}


def _learner(path: str, leave_out: str = "", also: str = "") -> dict[str, Known]:
    """Return a class with exceptions to the rule for learned attributes."""
    module, _, name = path.rpartition(".")
    return {name: Known(module, name, frozenset(leave_out.split()), frozenset(also.split()))}


_GENERATORS = {"FCLSWGAN": "gan", "CycleWGAN": "gan", "CycleUWGAN": "gan", "SEGZSL": "vae"}
_TRAINING_ONLY = frozenset({"seen_classifier_", "regressor_", "losses_"})

KNOWN: dict[str, Known] = {
    "Model": Known("cosmo.io.model", "Model", file_names={"exemplars": "rehearsal"}),
    "Rehearsal": Known("cosmo.classifier._promotion", "ExemplarBuffer", file_names={"per_class": "most"}),
    "Cosmo": Known("cosmo.classifier._cosmo", "Cosmo", pack=_cosmo_state, restore=_restore_cosmo),
    "RecordedOutputs": Known("cosmo.mixture.outputs", "OutputsSummary"),
    **_classes("cosmo.classifier", "combinations.GatedMixture combinations.OperatingPoint"),
    **_classes("cosmo.mixture", "curve.CurvePoint"),
    # Unseen experts, and what they learn.
    **_classes(
        "cosmo.experts",
        "pair.ExpertPair eszsl.ESZSL dap.DAP ranking.SJE ranking.DeViSE ranking.ALE sync.SynC lago.LAGO "
        "kernel.Kernel triple.TRIPLE similarity.SimilarityExpert embedding.CMT embedding.DEM relation.RN "
        "relation.ICINESS dcn.DCN _linear.Directions embedding.Neighbourhoods",
    ),
    **{
        name: Known(f"cosmo.experts.{module}", name, _TRAINING_ONLY, pack=_generator_state)
        for name, module in _GENERATORS.items()
    },
    "AttributeDetectors": Known("cosmo.experts._and_or", "Weights"),
    # Gates, and their observers.
    **_classes(
        "cosmo.gates",
        "confidence.ConfidenceGate baselines.MaxSoftmaxGate baselines.NoveltyGate odin.OdinGate "
        "leave_out.LeaveOutGate leave_out.LeaveOutEnsemble evidence.EvidenceGate _platt.ScoreScale "
        "_gradients.Logits",
    ),
    "Pushes": Known("cosmo.gates.odin", "_Perturbations"),
    "Neighbourhood": Known("cosmo.gates.evidence", "_Neighbourhood"),
    # Seen experts.
    **_learner("cosmo.experts.seen.SoftmaxRegression", "n_iter_ gap_"),
    **_learner("sklearn.linear_model.LogisticRegression", "n_iter_"),
    **_learner(
        "sklearn.linear_model.LogisticRegressionCV", "scores_ coefs_paths_ l1_ratio_ l1_ratios_ n_iter_"
    ),
    **_learner(
        "sklearn.discriminant_analysis.LinearDiscriminantAnalysis", "covariance_", also="_max_components"
    ),
    **_learner("sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis", "covariance_"),
    **_learner("sklearn.dummy.DummyClassifier", also="_strategy"),
    **_learner("sklearn.neural_network.MLPClassifier", "loss_curve_", also="_label_binarizer"),
    "KNeighborsClassifier": Known(
        "sklearn.neighbors", "KNeighborsClassifier", pack=_neighbours_state, restore=_restore_neighbours
    ),
    **_classes(
        "sklearn",
        "naive_bayes.GaussianNB pipeline.Pipeline preprocessing.StandardScaler preprocessing.MinMaxScaler "
        "preprocessing.MaxAbsScaler preprocessing.RobustScaler preprocessing.Normalizer "
        "preprocessing.LabelBinarizer decomposition.PCA",
    ),
}


def known_name(kind: type[Any]) -> str | None:
    """Return the name that files use for a class, or None."""
    for name, known in KNOWN.items():
        if known.name == kind.__name__ and known.load() is kind:
            return name
    return None
