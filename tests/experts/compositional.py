"""A small task whose classes are combinations of attributes."""

import numpy as np
import pandas as pd


class Task:
    """Classes are pairs of a shape and a colour; a third of the pairs has no samples."""

    def __init__(self, rows=12, noise=0.7, seed=0):
        rng = np.random.default_rng(seed)
        pairs = [(shape, colour) for shape in range(5) for colour in range(5)]
        codes = np.array([np.r_[np.eye(5)[s], np.eye(5)[c]] for s, c in pairs])
        columns = pd.MultiIndex.from_product([["shape", "colour"], range(5)])
        self.table = pd.DataFrame(codes, index=[f"{s}{c}" for s, c in pairs], columns=columns)
        unseen = [i for i, (s, c) in enumerate(pairs) if (s + 2 * c) % 5 in (0, 3)][:8]
        self.unseen = self.table.index[unseen]
        self.seen = self.table.index.difference(self.unseen)
        mixing = rng.normal(size=(10, 30))

        def draw(labels):
            clean = self.table.loc[labels].to_numpy() @ mixing
            return (clean + noise * rng.normal(size=clean.shape)).astype(np.float32)

        self.y = np.repeat(self.seen.to_numpy(dtype=object), rows)
        self.X = draw(self.y)
        self.y_new = np.repeat(self.unseen.to_numpy(dtype=object), rows)
        self.X_new = draw(self.y_new)
