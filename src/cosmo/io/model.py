"""`Model`: a fitted `Cosmo` with all that it takes to use, keep and extend it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo._core.extras import versions
from cosmo._core.validation import as_array, as_class_index, as_number, check_features, encode_labels
from cosmo.classifier._cosmo import Cosmo
from cosmo.classifier._exemplars import Rehearsal
from cosmo.classifier._promotion import can_add_class, promote
from cosmo.classifier.explain import Explanation
from cosmo.io._card import card_text
from cosmo.io.model_file import load, save

if TYPE_CHECKING:
    from cosmo.encoders import Encoder

__all__ = ["Model", "fit_model"]

Descriptions = Any  # DataFrame, Series or mapping: numbers or a sentence for each class


@dataclass(eq=False)
class Model:
    """A fitted classifier, with what it takes to ask it about raw samples and to add classes to it.

    `fit_model` makes one, `Model.load` reads one from a file. Wherever samples are asked for, these are
    texts or paths of pictures if the model has an encoder, else feature rows; rows that were encoded
    before are taken too.

    Parameters
    ----------
    cosmo : Cosmo
        Fitted.
    texts : dict, optional
        Descriptions by class, if they were given in words.
    encoder_name, encoder_identity : str, optional
        The encoder of the samples (`cosmo.encoders`), and its fingerprint: another version of it, which
        would give other features, is refused.
    feature_names : list of str, optional
        Columns of the training table: tables are read by these names, in whatever order they come.
    rehearsal : Rehearsal, optional
        A few training rows, for `promote`.
    summary : dict
        What is told about the training in `card`.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> train = data.split.trainval
    >>> model = fit_model(data.features[train], data.labels[train], data.descriptions, name="glyphs")
    >>> model.predict_frame(data.features[:2]).columns.tolist()
    ['label', 'probability', 'p_seen', 'label_2', 'probability_2', 'label_3', 'probability_3']
    """

    cosmo: Cosmo
    texts: dict[Hashable, str] | None = None
    encoder_name: str | None = None
    encoder_identity: str | None = None
    feature_names: list[str] | None = None
    rehearsal: Rehearsal | None = None
    summary: dict[str, Any] = field(default_factory=dict)
    _encoder: Encoder | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        few = self.rehearsal
        if few is not None and (few.rows.shape[1], len(few.counts)) != (
            self.cosmo.n_features_in_,
            len(self.cosmo.seen_classes_),
        ):
            raise ValueError("the rehearsal set does not fit the features and seen classes of the model")

    @classmethod
    def load(cls, path: str | Path, *, encoder: Encoder | None = None) -> Model:
        """Return the model of a file; see `cosmo.io.model_file.load` for what is refused.

        Parameters
        ----------
        path : path
        encoder : Encoder, optional
            To be used in place of a new one of the same name, if its weights are somewhere else.
        """
        found = load(path)
        model: Model = found if isinstance(found, cls) else cls(found)
        if encoder is not None:
            model._encoder = model._checked(encoder)
        return model

    def save(self, path: str | Path) -> None:
        """Write everything into one file; see `cosmo.io.model_file.save`."""
        save(self, path)

    @property
    def classes(self) -> pd.DataFrame:
        """All classes, in the order of the table: whether each is seen, and its sentence if it has one."""
        index = self.cosmo.experts_.descriptions.index
        frame = pd.DataFrame({"seen": index.isin(self.cosmo.seen_classes_)}, index=index)
        return frame if self.texts is None else frame.assign(description=[self.texts[one] for one in index])

    def predict(self, items: Any) -> NDArray[Any]:
        """Return the class of each sample."""
        return self.cosmo.predict(self._rows(items))

    def predict_proba(self, items: Any) -> NDArray[Any]:
        """Return the distribution over `classes` for each sample."""
        return self.cosmo.predict_proba(self._rows(items))

    def predict_frame(self, items: Any, top: int = 3) -> pd.DataFrame:
        """Return a table with one row per sample.

        Parameters
        ----------
        items : samples
        top : int
            How many classes to name, best first.

        Returns
        -------
        DataFrame
            `label` and `probability` of the best class; `p_seen`, the gate's belief that the sample is of a
            seen class; then `label_2`, `probability_2` and so on. The index is that of `items`, if any.
        """
        top = as_number(top, name="top", whole=True)
        if top < 1:
            raise ValueError(f"top must be a whole number of at least 1, got {top}")
        labels, probabilities, p_seen = self.cosmo.predict_top(self._rows(items), top)
        columns = {"label": labels[:, 0], "probability": probabilities[:, 0], "p_seen": p_seen}
        for k in range(1, labels.shape[1]):
            columns |= {f"label_{k + 1}": labels[:, k], f"probability_{k + 1}": probabilities[:, k]}
        index = items.index if isinstance(items, pd.DataFrame | pd.Series) else None
        return pd.DataFrame(columns, index=index)

    def explain(self, items: Any) -> Explanation:
        """Return every step between the experts and the answer, for each sample."""
        return self.cosmo.explain(self._rows(items))

    def operate_at(self, **point: Any) -> Self:
        """Move along the seen-unseen curve; parameters as in `Cosmo.operate_at`."""
        self.cosmo.operate_at(**point)
        return self

    def add_classes(self, descriptions: Descriptions) -> Self:
        """Recognise more unseen classes from now on; nothing is trained.

        Parameters
        ----------
        descriptions : as the model was fitted with
            A sentence per class (dict or Series), or numbers (DataFrame or dict).
        """
        texts = _texts(descriptions)
        if (texts is None) != (self.texts is None):
            raise ValueError(
                "describe the new classes as the others are: "
                + ("by numbers" if self.texts is None else "a sentence for each")
            )
        if texts is None:
            self.cosmo.add_classes(descriptions)
            return self
        assert self.texts is not None  # as checked above
        table = _described(self.encoder, texts)
        self.cosmo.add_classes(table)
        self.texts = {**self.texts, **texts}
        return self

    def promote(
        self, label: Hashable, items: Any, *, training: tuple[Any, Iterable[Hashable]] | None = None
    ) -> Self:
        """Make an unseen class a seen one, now that there are samples of it.

        The seen expert learns the class; the unseen expert, the gate and the operating point stay as they
        are. A logistic regression learns the new class's weights alone, from its samples and from those of
        the rehearsal set, or from `training`; other classifiers are fitted anew, for which they need
        `training`.

        Parameters
        ----------
        label : class label
            An unseen class.
        items : samples
            Its first samples. Some twenty are needed to recognise it better than its description does.
        training : (samples, labels), optional
            Of all seen classes.
        """
        experts = self.cosmo.experts_
        if label in experts.seen_classes:
            raise ValueError(f"{label!r} is a seen class already")
        if label not in experts.unseen_classes:
            raise ValueError(f"{label!r} is not described; add it with add_classes first")
        if len(experts.unseen_classes) == 1:
            raise ValueError(f"{label!r} is the last unseen class; add another before it is promoted")
        width = self.cosmo.n_features_in_
        rows = check_features(self._rows(items), name="samples", columns=width)
        if not len(rows):
            raise ValueError(f"there are no samples of {label!r}")
        if training is not None:
            others = check_features(self._rows(training[0]), name="training rows", columns=width)
            codes = encode_labels(training[1], experts.seen_classes, name="labels of training rows")
            if len(codes) != len(others):
                raise ValueError(f"training has {len(others)} rows but {len(codes)} labels")
            missing = experts.seen_classes[np.bincount(codes, minlength=len(experts.seen_classes)) == 0]
            if len(missing):
                raise ValueError(f"training has no rows of the seen class {missing[0]!r}")
            weights = np.ones(len(others))
        elif self.rehearsal is None:
            raise ValueError("the model holds no rehearsal rows: give training=(samples, labels)")
        elif not can_add_class(experts.seen):
            raise ValueError(
                f"{type(experts.seen).__name__} has to be fitted anew: give training=(samples, labels)"
            )
        else:
            others, codes = self.rehearsal.rows.astype(np.float32), self.rehearsal.codes.astype(np.intp)
            weights = self.rehearsal.weights
        gate = self.cosmo.combination_.gate_
        self.cosmo.experts_ = promote(experts, label, rows, others, codes, weights, gate=gate)
        if self.rehearsal is not None:
            self.rehearsal = self.rehearsal.extended(rows)
        self.summary = {**self.summary, "promoted": [*self.summary.get("promoted", []), str(label)]}
        return self

    @property
    def encoder(self) -> Encoder:
        """The encoder of the samples, made when it is first asked for."""
        if self._encoder is None:
            if self.encoder_name is None:
                raise ValueError("the model has no encoder: it takes feature rows")
            from cosmo.encoders import make_encoder

            self._encoder = self._checked(make_encoder(self.encoder_name))
        return self._encoder

    def _checked(self, encoder: Encoder) -> Encoder:
        if encoder.identity != self.encoder_identity:
            raise ValueError(
                f"the encoder {encoder.name!r} gives other features than the one that the model was trained "
                f"with ({self.encoder_name!r}, {self.encoder_identity}): its weights or preprocessing differ"
            )
        return encoder

    def _rows(self, items: Any) -> Any:
        """Return samples as feature rows."""
        if isinstance(items, pd.DataFrame) and self.feature_names is not None:
            missing = [name for name in self.feature_names if name not in items.columns]
            if missing:
                raise ValueError(f"the table lacks {len(missing)} feature columns, such as {missing[0]!r}")
            items = items[self.feature_names]
        if self.encoder_name is None or _is_table(items):
            return as_array(items, name="samples")
        from cosmo.encoders import extract

        return extract(self.encoder, _listed(items)).features

    def card(self) -> dict[str, Any]:
        """Return what there is to know about the model, in plain values."""
        cosmo = self.cosmo
        experts, point = cosmo.experts_, cosmo.operating_point_
        curve = cosmo.validation_curve_
        at = curve.at(point.threshold)
        return {
            **self.summary,
            "features": int(cosmo.n_features_in_),
            "encoder": self.encoder_name,
            "described by": "words" if self.texts is not None else f"{experts.descriptions.shape[1]} numbers",
            "seen classes": len(cosmo.seen_classes_),
            "unseen classes": len(cosmo.unseen_classes_),
            "seen expert": _line(experts.seen),
            "unseen expert": type(experts.unseen).__name__,
            "chosen": {name: _plain(value) for name, value in experts.unseen.decided_.items()},
            "gate": _line(cosmo.combination_.gate_),
            "smoothing": cosmo.smoothing,
            "operating point": {name: float(value) for name, value in point._asdict().items()},
            "validation": {**at._asdict(), "ausuc": curve.area},
            "rehearsal rows": 0 if self.rehearsal is None else len(self.rehearsal.rows),
        }

    def __str__(self) -> str:
        return card_text(self.card())


def fit_model(
    X: Any,
    y: Iterable[Hashable],
    descriptions: Descriptions,
    *,
    encoder: str | Encoder | None = None,
    name: str | None = None,
    date: str | None = None,
    rehearsal: int = 20,
    **cosmo_params: Any,
) -> Model:
    """Fit a model that can be saved.

    Parameters
    ----------
    X : samples
        Feature rows (array or DataFrame), or, with an encoder, texts or paths of pictures.
    y : labels, one per sample
        Classes that occur here are seen.
    descriptions : DataFrame, Series or dict
        One row, or one sentence, per class, seen and unseen. Sentences need an encoder that has a place for
        them (`Encoder.describes`).
    encoder : name or Encoder, optional
        See `cosmo.encoders.make_encoder`.
    name, date : str, optional
        Of the data and of the training, for the card. No date is stored unless it is given.
    rehearsal : int
        Training rows of each seen class to keep for `Model.promote`; 0 keeps none.
    **cosmo_params
        Of `Cosmo`: experts, gate, smoothing and so on.
    """
    if rehearsal < 0 or int(rehearsal) != rehearsal:
        raise ValueError(f"rehearsal must be a whole number, 0 or more, got {rehearsal}")
    if isinstance(encoder, str):
        from cosmo.encoders import make_encoder

        encoder = make_encoder(encoder)
    texts = _texts(descriptions)
    if texts is not None and encoder is None:
        raise ValueError("descriptions in words need an encoder, such as encoder='minilm'; or give numbers")
    table = descriptions if texts is None else _described(encoder, texts)
    names = None
    if isinstance(X, pd.DataFrame):
        names = [str(column) for column in X.columns]
        X = X.set_axis(names, axis=1)
    model = Model(
        Cosmo(table, **cosmo_params),
        texts,
        None if encoder is None else encoder.name,
        None if encoder is None else encoder.identity,
        names,
    )
    model._encoder = encoder
    rows = model._rows(X)
    labels = as_class_index(y)
    model.cosmo.fit(rows, labels)
    codes = model.cosmo.seen_classes_.get_indexer(labels)
    if rehearsal:
        model.rehearsal = Rehearsal.draw(np.asarray(rows, dtype=np.float32), codes, rehearsal)
    counts = np.bincount(codes)
    model.summary = {
        "data": name,
        "date": date,
        "samples": len(codes),
        "samples per seen class": {"least": int(counts.min()), "most": int(counts.max())},
        "versions": versions(),
    }
    return model


def _texts(descriptions: Descriptions) -> dict[Hashable, str] | None:
    """Return descriptions in words by class, or None if they are numbers."""
    if isinstance(descriptions, pd.DataFrame):
        return None
    if not isinstance(descriptions, Mapping | pd.Series):
        raise TypeError(
            "descriptions must be a DataFrame of numbers, or a dict or Series from class to sentence or "
            f"vector, got {type(descriptions).__name__}"
        )
    pairs = {_plain(label): text for label, text in descriptions.items()}
    if not any(isinstance(text, str) for text in pairs.values()):
        return None
    for label, text in pairs.items():
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"the description of {label!r} must be a sentence, got {text!r}")
    return pairs


def _described(encoder: Encoder | None, texts: Mapping[Hashable, str]) -> pd.DataFrame:
    assert encoder is not None  # whoever calls has checked
    return pd.DataFrame(encoder.encode_descriptions(list(texts.values())), index=as_class_index(texts))


def _is_table(items: Any) -> bool:
    """Tell whether samples are feature rows already."""
    return isinstance(items, pd.DataFrame) or (
        isinstance(items, np.ndarray) and items.ndim == 2 and items.dtype.kind in "fiu"
    )


def _listed(items: Any) -> Sequence[Any]:
    return items if isinstance(items, Sequence) else list(items)


def _line(estimator: Any) -> str:
    """Return an estimator as one line."""
    return " ".join(repr(estimator).split())


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
