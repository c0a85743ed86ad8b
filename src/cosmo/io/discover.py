"""Groups of samples that a model rejects, as proposals of new classes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.cluster import HDBSCAN
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import RidgeCV

from cosmo._core.validation import as_number, check_features
from cosmo.experts._linear import Classes, transformed, unit_rows
from cosmo.io.model import Model

# Chosen on CLINC, draws 100 and 101 of `benchmarks/discover.py`, with the out-of-scope texts of "train" and
# "val"; other values near them find as much.
_WHITENING, _DIMENSIONS = 0.6, 40
_LEAST = 0.25  # share of a group that is farther from its centre than the samples that join it
_WORDS, _TYPICAL = 6, 3
_NEAREST = 3

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Discovery:
    """Groups of rejected samples.

    Parameters
    ----------
    groups : DataFrame
        A row for each group, the least known first; the index is the proposed name. `size`; `conformity`, the
        mean of its samples; `nearest`, classes with their mean p(y), as text; `words` (of texts); `typical`,
        positions of samples near the centre.
    labels : array of shape (n_samples,)
        Proposed name of each sample, or None.
    descriptions : Series or DataFrame
        A draft for each group, a sentence or numbers, as `Model.add_classes` takes them.
    """

    groups: pd.DataFrame
    labels: NDArray[Any]
    descriptions: pd.Series | pd.DataFrame


def discover(
    model: Model, items: Any, *, rows: Any = None, reject: float = 0.3, smallest: int = 15
) -> Discovery:
    """Group the samples that a model rejects, and draft a description of each group.

    The rejected samples are whitened by the covariance within classes of the exemplar buffer, reduced by PCA
    and grouped by HDBSCAN. Other samples join a group if they are nearer to its centre than a quarter of its
    samples are, and than to the mean of any seen class. Some groups are of known classes that the model
    knows badly: look at `nearest` before you add a class.

    Parameters
    ----------
    model : Model
        With reject option and exemplar buffer.
    items : samples
        Unlabelled; texts, paths of images or feature rows.
    rows : array, optional
        Their feature rows, if they are encoded already.
    reject : float, default=0.3
        Samples with a conformity of at most this are grouped. More than for `predict`: groups are a second
        test, which most samples of known classes do not pass.
    smallest : int, default=15
        Number of samples of a group, at least.

    Returns
    -------
    Discovery

    Examples
    --------
    >>> from cosmo import fit_model
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> train, unknown = data.split.trainval, data.unseen_classes[:5]
    >>> model = fit_model(data.features[train], data.labels[train], data.descriptions.drop(unknown))
    >>> found = discover(model, data.features, smallest=5)
    >>> list(found.groups.columns), len(found.descriptions) == len(found.groups)
    (['size', 'conformity', 'nearest', 'typical'], True)
    """
    if not 0 < as_number(reject, name="reject") < 1:
        raise ValueError(f"reject must lie between 0 and 1, got {reject}")
    if as_number(smallest, name="smallest", whole=True) < 2:
        raise ValueError(f"smallest must be at least 2, got {smallest}")
    model.cosmo.experts_.check_trained("it cannot reject samples")
    if model.exemplars is None:
        raise ValueError("the model has no exemplar buffer; fit it again with exemplars=20")
    X = check_features(model.encode(items) if rows is None else rows, name="samples")
    conformity = model.cosmo.conformity(X)
    space = _Space.learn(model)
    codes = space.groups(X, conformity <= reject, smallest)
    order = sorted(range(codes.max() + 1), key=lambda code: conformity[codes == code].mean())
    members = [np.flatnonzero(codes == code) for code in order]
    is_text = model.encoder_name is not None and model.encoder.kind == "text" and items is not None
    texts = list(items) if is_text and all(isinstance(one, str) for one in items) else None
    words = [[] for _ in members] if texts is None else _distinctive_words(texts, members)
    names, frame, proba = _names(words, model), [], model.cosmo.predict_proba(X)
    for rows_of, own in zip(members, words, strict=True):
        mean = proba[rows_of].mean(axis=0)
        nearest = np.argsort(-mean)[:_NEAREST]
        facts: dict[str, Any] = {
            "size": len(rows_of),
            "conformity": conformity[rows_of].mean(),
            "nearest": ", ".join(f"{model.cosmo.classes_[k]} ({mean[k]:.2f})" for k in nearest),
            "words": " ".join(own),
            "typical": rows_of[space.most_typical(X[rows_of])].tolist(),
        }
        frame.append(facts)
    columns = ["size", "conformity", "nearest", *(["words"] if texts else []), "typical"]
    groups = pd.DataFrame(frame, index=pd.Index(names, name="class"), columns=columns)
    labels = np.full(len(X), None, dtype=object)
    for name, rows_of in zip(names, members, strict=True):
        labels[rows_of] = name
    return Discovery(groups, labels, _drafts(model, space, X, members, groups, texts))


@dataclass(frozen=True, eq=False)
class _Space:
    """Features whitened by the covariance within seen classes, of unit length."""

    model: Model
    mean: Floats
    whitener: Floats
    centres: Floats  # of the seen classes
    raw: Floats  # the same before whitening

    @classmethod
    def learn(cls, model: Model) -> _Space:
        assert model.exemplars is not None
        rows = transformed(model.exemplars.rows.astype(np.float32), model.cosmo.experts_.transform)
        classes = Classes.learn(rows, model.exemplars.codes.astype(np.intp))
        values, axes = eigh(classes.covariance)
        spread = (1 - _WHITENING) + _WHITENING * np.maximum(values, 0) / classes.variance
        whitener = (axes / np.sqrt(spread)) @ axes.T
        return cls(model, classes.mean, whitener, unit_rows(classes.centred @ whitener), classes.centred)

    def __call__(self, X: NDArray[Any]) -> Floats:
        rows = transformed(X, self.model.cosmo.experts_.transform)
        return unit_rows((rows - self.mean) @ self.whitener)

    def groups(self, X: NDArray[Any], rejected: NDArray[np.bool_], smallest: int) -> NDArray[np.intp]:
        """Return the group of each sample, or -1."""
        rows, codes = self(X), np.full(len(X), -1)
        if rejected.sum() < 2 * smallest:
            return codes
        dimensions = min(_DIMENSIONS, rejected.sum() - 1, X.shape[1])
        reduced = unit_rows(PCA(dimensions, random_state=0).fit_transform(rows[rejected]))
        codes[rejected] = HDBSCAN(min_cluster_size=smallest, copy=True).fit(reduced).labels_
        n_groups = codes.max() + 1
        if n_groups == 0:
            return codes
        centres = unit_rows(np.array([rows[codes == code].mean(axis=0) for code in range(n_groups)]))
        near = rows @ centres.T
        least = np.array([np.quantile(near[codes == code, code], _LEAST) for code in range(n_groups)])
        best, closest = near.argmax(axis=1), near.max(axis=1)
        joins = (codes < 0) & (closest >= least[best]) & (closest > (rows @ self.centres.T).max(axis=1))
        return np.where(joins, best, codes)

    def most_typical(self, X: NDArray[Any]) -> NDArray[np.intp]:
        """Return positions of the samples nearest to the centre."""
        rows = self(X)
        return np.argsort(-(rows @ rows.mean(axis=0)), kind="stable")[:_TYPICAL]


def _distinctive_words(texts: Sequence[str], members: Sequence[NDArray[np.intp]]) -> list[list[str]]:
    """Return words that are frequent in each group and rare elsewhere."""
    counter = CountVectorizer(stop_words="english", token_pattern=r"(?u)\b[^\W\d]{3,}\b", binary=True)
    try:
        counts = counter.fit_transform(texts)
    except ValueError:  # There are no words but stop words.
        return [[] for _ in members]
    share, vocabulary = np.asarray(counts.mean(axis=0))[0], counter.get_feature_names_out()
    found = []
    for rows in members:
        own = np.asarray(counts[rows].mean(axis=0))[0]
        score = own * np.log(np.maximum(own, 1e-12) / share)
        best = np.argsort(-score, kind="stable")[:_WORDS]
        found.append([str(vocabulary[k]) for k in best if score[k] > 0.02])
    return found


def _names(words: Sequence[Sequence[str]], model: Model) -> list[Any]:
    """Return a new name for each group: its two most distinctive words, or a number."""
    taken, names = set(model.classes.index.astype(str)), []
    numbers = model.classes.index.dtype.kind == "i"
    first = int(model.classes.index.max()) + 1 if numbers else 1
    for k, own in enumerate(words):
        other = [word for word in own[1:] if word[:4] != own[0][:4]]  # not another form of the first
        name = "_".join([*own[:1], *other[:1]]) or f"group_{k + 1}"
        while name in taken:
            number = re.search(r"_(\d+)$", name)
            name = f"{name[: number.start()]}_{int(number[1]) + 1}" if number else f"{name}_2"
        taken.add(name)
        names.append(first + k if numbers else name)
    return names


def _drafts(
    model: Model,
    space: _Space,
    X: NDArray[Any],
    members: Sequence[NDArray[np.intp]],
    groups: pd.DataFrame,
    texts: Sequence[str] | None,
) -> pd.Series | pd.DataFrame:
    """Return a description of each group: its most typical text, or the numbers that its rows predict."""
    if model.texts is not None:
        if texts is None:
            return "similar to " + groups["nearest"].rename("description")
        # More texts, or distinctive words before it, describe a group worse.
        return pd.Series(
            [texts[k[0]] for k in groups["typical"]], groups.index, dtype=object, name="description"
        )
    table = model.cosmo.experts_.descriptions
    seen = table.loc[model.cosmo.seen_classes_].to_numpy()
    scale = float(np.square(space.raw).sum(axis=1).mean())
    regression = RidgeCV(scale * np.logspace(-4, 3, 15)).fit(space.raw, seen)
    means = [
        transformed(X[rows], model.cosmo.experts_.transform).mean(axis=0) - space.mean for rows in members
    ]
    values = regression.predict(np.array(means)) if means else np.empty((0, table.shape[1]))
    return pd.DataFrame(values, index=groups.index, columns=table.columns)
