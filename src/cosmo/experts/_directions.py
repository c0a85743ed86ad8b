"""Features and descriptions as directions, for experts that compare them by their products."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosmo.experts._scaling import unit_rows

__all__ = ["Directions"]


@dataclass(frozen=True, eq=False)
class Directions:
    """What was learned from the training rows and the seen classes.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [2.0, 1.0]], dtype=np.float32)
    >>> learned = Directions.learn(X, np.eye(2, dtype=np.float32))
    >>> learned.features(X), learned.signatures(np.eye(2, dtype=np.float32)).round(2)
    (array([[-1.,  0.],
           [ 1.,  0.]], dtype=float32), array([[ 0.71, -0.71],
           [-0.71,  0.71]], dtype=float32))
    """

    mean: NDArray[np.float32]
    scale: NDArray[np.float32]
    attribute_mean: NDArray[np.float32]

    @classmethod
    def learn(cls, X: NDArray[np.float32], attributes: NDArray[np.float32]) -> Directions:
        """Learn the spread of each feature and the mean description."""
        spread = X.std(axis=0)
        scale = np.where(spread > 0, spread, 1).astype(np.float32)
        return cls(X.mean(axis=0), scale, attributes.mean(axis=0))

    def features(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return samples standardised by feature, then of unit length."""
        return unit_rows((X - self.mean) / self.scale)

    def signatures(self, attributes: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return descriptions less the mean of the seen classes, of unit length."""
        return unit_rows(attributes - self.attribute_mean)
