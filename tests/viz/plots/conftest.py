from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cosmo.mixture.curve import SeenUnseenCurve


@pytest.fixture(scope="session")
def made_curve() -> Callable[..., SeenUnseenCurve]:
    def make(seed: int, n: int = 60) -> SeenUnseenCurve:
        rng = np.random.default_rng(seed)
        seen = rng.random(n) < 0.5
        right = rng.random(n) < 0.7
        return SeenUnseenCurve(
            rng.normal(size=n) + seen,
            np.where(seen & right, 1 / seen.sum(), 0),
            np.where(~seen & right, 1 / (~seen).sum(), 0),
        )

    return make
