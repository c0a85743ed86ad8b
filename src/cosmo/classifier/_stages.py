"""The paper's recipe: validation stage, gate and operating point, then experts fitted on all rows."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from cosmo._core.cache import Cache
from cosmo.classifier.combinations import GatedMixture, Outputs
from cosmo.data.splits import HoldOut
from cosmo.experts.base import UnseenExpert
from cosmo.experts.pair import ExpertPair

logger = logging.getLogger(__name__)


def fit_paper(
    mixture: GatedMixture,
    seen: BaseEstimator,
    unseen: UnseenExpert,
    X: NDArray[np.float32],
    y: pd.Index,
    table: pd.DataFrame,
    holds: Sequence[HoldOut],
    *,
    cache: Cache | None = None,
) -> tuple[ExpertPair, GatedMixture, Outputs]:
    """Return the experts fitted on all rows, the fitted mixture, and the outputs on GZSL-Val.

    The gate is fitted on all hold-outs; the operating point is chosen on the first, the validation stage.
    """
    gate = mixture.gate
    assert gate is not None
    known = table[table.index.isin(y)]  # Descriptions of unseen classes may not influence any choice.
    held = holds[0]
    logger.info("validation stage: fitting both experts on %d rows", len(held.seen_train))
    pair = ExpertPair.select(seen, unseen, X, y, known, held, observer=gate.observer(), cache=cache)
    outputs = [pair.outputs(X[held.gzsl_val], y[held.gzsl_val])]
    for k, fold in enumerate(holds[1:], start=2):
        logger.info("hold-out %d of %d, for the gate", k, len(holds))
        train, val = fold.seen_train, fold.gzsl_val
        again = ExpertPair.fit(seen, pair.unseen, X[train], y[train], known, observer=gate.observer())
        outputs.append(again.outputs(X[val], y[val]))
    logger.info("fitting the gate and choosing the operating point on %d rows", len(outputs[0]))
    mixture.fit(*outputs)
    chosen = ", ".join(f"{name} {value:.3g}" for name, value in pair.unseen.decided_.items())
    logger.info("test stage: fitting both experts on all %d rows (%s)", len(X), chosen)
    pair = ExpertPair.fit(seen, pair.unseen, X, y, table, observer=gate.observer())
    return pair, mixture, outputs[0]
