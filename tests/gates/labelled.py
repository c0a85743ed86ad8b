"""Expert outputs from plain arrays, for gates, which do not care about classes."""

import numpy as np
import pandas as pd

from cosmo.mixture.outputs import ExpertOutputs


def outputs(seen, unseen, is_seen=None, **more):
    n_seen, n_unseen = seen.shape[1], unseen.shape[1]
    target = None if is_seen is None else np.where(is_seen, 0, n_seen)
    names = pd.RangeIndex(n_seen), pd.RangeIndex(n_seen, n_seen + n_unseen)
    return ExpertOutputs(*names, seen, unseen, target=target, **more)
