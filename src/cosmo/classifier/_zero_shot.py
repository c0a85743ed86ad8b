"""A classifier without samples: the nearest description, in the space of an encoder of both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo._core.validation import check_descriptions
from cosmo.classifier._cosmo import Cosmo
from cosmo.classifier.combinations import GatedMixture, OperatingPoint
from cosmo.experts import SimilarityExpert
from cosmo.experts.pair import ExpertPair
from cosmo.experts.seen import NoSeenExpert
from cosmo.gates.calibrated import CalibratedGate
from cosmo.mixture.confidences import Temperatures
from cosmo.mixture.outputs import OutputsSummary

# Of largest likelihood on texts of CLINC, draw 100 of the classes, among 100 seen ones; 0.03 among 10.
_TEMPERATURE = 0.04


def fit_zero_shot(cosmo: Cosmo, n_features: int | None = None) -> Cosmo:
    """Complete a classifier whose classes have descriptions only: the largest cosine, nothing is trained."""
    assert cosmo.descriptions is not None, "encoded by the caller"
    table = check_descriptions(cosmo.descriptions)
    width = n_features or table.shape[1]
    if not isinstance(cosmo.unseen, SimilarityExpert | str | None):
        raise ValueError(f"without samples, the unseen expert is similarity, not {cosmo.unseen!r}")
    prompts = getattr(cosmo.unseen, "prompts", "average")
    expert = SimilarityExpert(0.0, 0.0, temperature=_TEMPERATURE, prompts=prompts)
    expert.columns_, expert.decided_, expert.others_ = table.columns, expert.get_params(), None
    expert.sample_mean_ = expert.description_mean_ = np.zeros(width, dtype=np.float32)
    expert.whitener_, expert.step_ = np.eye(width, dtype=np.float32), np.zeros((width, width), np.float32)
    mixture = GatedMixture(CalibratedGate(), smoothing="none", softnesses=(1.0,))
    mixture.gate_, mixture.operating_point_ = CalibratedGate(), OperatingPoint(0.0)
    gate: CalibratedGate = mixture.gate_
    # Without inputs: what speaks for "seen" is learned from samples only.
    gate.mean_ = gate.spread_ = gate.weights_ = np.zeros(0)
    gate.bias_ = gate.bias_error_ = 0.0
    temperatures = Temperatures(1.0, _TEMPERATURE, _TEMPERATURE)
    seen = pd.Index([], dtype=table.index.dtype)
    cosmo.experts_ = ExpertPair(NoSeenExpert(), expert, table, seen, temperatures=temperatures)
    codes: NDArray[Any] = np.zeros(0, dtype=np.int32)
    numbers: NDArray[Any] = np.zeros(0)
    cosmo.validation_outputs_ = OutputsSummary(0, 0, codes, codes, codes, numbers, numbers, numbers)
    cosmo.combination_, cosmo.choice_, cosmo.n_features_in_ = mixture, None, width
    return cosmo
