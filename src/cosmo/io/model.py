"""`Model`: a fitted `Cosmo` with the encoder of its samples, saved as one file."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo._core import versions
from cosmo._core.cache import fingerprint
from cosmo._core.validation import as_array, as_class_index, as_number, check_features, encode_labels
from cosmo.classifier._cosmo import Cosmo, fit_zero_shot
from cosmo.classifier._learning import ExemplarBuffer, learn
from cosmo.classifier.rejection import UNKNOWN
from cosmo.encoders import DeferredEncoder, Encoder, check_identity, extract, make_encoder
from cosmo.encoders.base import encode_classes
from cosmo.experts.base import plain_value
from cosmo.io import model_file
from cosmo.io._packing import pack

_EXEMPLARS = 20  # per class
Descriptions = Any  # DataFrame, Series or mapping: a vector or a sentence for each class


@dataclass(eq=False)
class Model:
    """Classify raw samples with a fitted `Cosmo`, and save it with all that this takes.

    `fit_model` makes one, `Model.load` reads one from a file. Samples are texts or paths of images if the
    model has an encoder, else feature rows. Encoded rows are accepted too. What needs no encoder is in
    `cosmo`: `model.cosmo.operate_at(min_seen=0.7)`, `model.cosmo.explain(model.encode(items))`.

    Parameters
    ----------
    cosmo : Cosmo
        Fitted classifier.
    texts : dict, optional
        Sentence that describes each class, if the descriptions are text.
    encoder_name : str, optional
        Encoder of the samples, see `cosmo.encoders.make_encoder`.
    encoder_identity : str, optional
        Fingerprint of the encoder. Another version of it, with other features, raises ValueError.
    feature_names : list of str, optional
        Columns of the training table. Tables are read by these names, in any order of columns.
    exemplars : ExemplarBuffer, optional
        Exemplar buffer used by `learn`.
    summary : dict, optional
        Facts about the training, for `card`.

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
    exemplars: ExemplarBuffer | None = None
    summary: dict[str, Any] = field(default_factory=dict)
    _encoder: Encoder | None = field(default=None, init=False, repr=False)

    @classmethod
    def load(
        cls, path: str | Path, *, encoder: Encoder | None = None, trusted: Iterable[str | type] = ()
    ) -> Model:
        """Load a model from a file; see `cosmo.io.model_file.load` for `trusted`.

        `encoder` is used instead of a new one of the same name, for weights that are in another place.
        """
        content = model_file.load(path, trusted=trusted)
        model: Model = content if isinstance(content, cls) else cls(content)
        if encoder is not None:
            model._encoder = check_identity(encoder, model.encoder_identity)
        return model

    def save(self, path: str | Path) -> None:
        """Write the model to one file; see `cosmo.io.model_file.save`."""
        model_file.save(self, path)

    @property
    def classes(self) -> pd.DataFrame:
        """All classes in the order of the descriptions: whether each is seen, and its sentence if any."""
        index = self.cosmo.experts_.descriptions.index
        frame = pd.DataFrame({"seen": index.isin(self.cosmo.seen_classes_)}, index=index)
        return frame if self.texts is None else frame.assign(description=[self.texts[name] for name in index])

    @property
    def encoder(self) -> Encoder:
        """The encoder of the samples; its weights are loaded when something must be encoded."""
        if self._encoder is None:
            if self.encoder_name is None or self.encoder_identity is None:
                raise ValueError("the model has no encoder: it takes feature rows")
            width = int(self.cosmo.n_features_in_)
            self._encoder = DeferredEncoder(self.encoder_name, self.encoder_identity, width)
        return self._encoder

    def encode(self, items: Any) -> Any:
        """Return samples as feature rows, the input of all methods of `cosmo`."""
        if isinstance(items, pd.DataFrame) and self.feature_names is not None:
            missing = [name for name in self.feature_names if name not in items.columns]
            if missing:
                raise ValueError(f"the table lacks {len(missing)} feature columns, such as {missing[0]!r}")
            items = items[self.feature_names]
        encoded = isinstance(items, pd.DataFrame) or (
            isinstance(items, np.ndarray) and items.ndim == 2 and items.dtype.kind in "fiu"
        )
        if self.encoder_name is None or encoded:
            rows, names = as_array(items, name="samples"), getattr(self.cosmo, "feature_names_in_", [])
            return pd.DataFrame(rows, columns=names) if rows.shape[1:] == (len(names),) else rows
        return extract(self.encoder, items if isinstance(items, Sequence) else list(items)).features

    def predict(self, items: Any) -> NDArray[Any]:
        """Return the class of each sample."""
        return self.cosmo.predict(self.encode(items))

    def predict_frame(
        self,
        items: Any,
        top: int = 3,
        *,
        reject: float | None = None,
        accuracy: float | None = None,
        unknown: Hashable = UNKNOWN,
        why: bool = False,
    ) -> pd.DataFrame:
        """Return predictions as a table with one row per sample.

        Parameters
        ----------
        items : samples
        top : int, default=3
            Number of classes, best first.
        reject, accuracy, unknown
            As in `Cosmo.predict`. Of a rejected sample, `label` is `unknown`.
        why : bool, default=False
            Add a column with a reason for each answer.

        Returns
        -------
        DataFrame
            `label` and `probability` of the best class; `p_seen`, the gate's probability that the class is
            seen; `conformity` with `reject`, and `why`; then `label_2`, `probability_2` and so on. The index
            is that of `items`, if any.
        """
        top = as_number(top, name="top", whole=True)
        if top < 1:
            raise ValueError(f"top must be a whole number of at least 1, got {top}")
        rows = self.encode(items)
        labels, probabilities, p_seen = self.cosmo.predict_top(rows, top)
        columns: dict[str, Any] = {
            "label": labels[:, 0],
            "probability": probabilities[:, 0],
            "p_seen": p_seen,
        }
        if reject is not None:
            columns["conformity"] = self.cosmo.conformity(rows)
        if why:
            columns["why"] = self.cosmo.reasons(rows)
        if reject is not None or accuracy is not None:
            self.cosmo.check_unknown(unknown)
            rejected = self.cosmo.rejected(
                columns["probability"], columns.get("conformity"), reject=reject, accuracy=accuracy
            )
            columns["label"] = columns["label"].astype(object)
            columns["label"][rejected] = unknown
            if why:
                either = zip(columns["why"], labels[:, 0], rejected, strict=True)
                columns["why"] = [
                    f"{unknown}; else {best}, {text}" if no else text for text, best, no in either
                ]
        for k in range(1, labels.shape[1]):
            columns |= {f"label_{k + 1}": labels[:, k], f"probability_{k + 1}": probabilities[:, k]}
        index = items.index if isinstance(items, pd.DataFrame | pd.Series) else None
        return pd.DataFrame(columns, index=index)

    def add_classes(self, descriptions: Descriptions) -> Self:
        """Add unseen classes by a sentence or a vector for each, as in the training; nothing is trained."""
        texts = _texts(descriptions)
        if (texts is None) != (self.texts is None):
            form = "by numbers" if self.texts is None else "a sentence for each"
            raise ValueError(f"describe the new classes as the others are: {form}")
        if texts is None or self.texts is None:
            self.cosmo.add_classes(descriptions)
        else:
            n = self.cosmo.experts_.descriptions.shape[1] // self.encoder.n_features
            self.cosmo.add_classes(_encode_texts(self.encoder, texts, n))
            self.texts = {**self.texts, **texts}
        return self

    def learn(
        self, items: Any, labels: Iterable[Hashable], *, training: tuple[Any, Any] | None = None
    ) -> Self:
        """Learn from labelled samples after the training, in a fraction of its time.

        Unseen classes become seen: their samples are blended with their descriptions, by a penalty that falls
        with the number of samples. Seen classes learn in the same way. From five samples of a class on,
        unseen experts with a closed form (`ESZSL`, `GaussianExpert`, `SimilarityExpert`) learn about the
        other classes, too; else these keep their probabilities relative to each other.

        Parameters
        ----------
        items : samples
        labels : class labels, one per sample
            Classes of the model, seen or unseen.
        training : (samples, labels), optional
            Samples of all seen classes, if the model has no exemplar buffer.

        Returns
        -------
        Model
        """
        experts, width = self.cosmo.experts_, self.cosmo.n_features_in_
        rows, y = check_features(self.encode(items), name="samples", columns=width), as_class_index(labels)
        if len(rows) != len(y):
            raise ValueError(f"there are {len(rows)} samples but {len(y)} labels; give one label per sample")
        if not len(rows):
            raise ValueError("there are no samples; give at least one")
        unknown = y[~y.isin(experts.classes)].unique()
        if len(unknown):
            raise ValueError(
                f"the model has no class {', '.join(map(repr, unknown))}; add classes first: add_classes"
            )
        exemplars = self.exemplars
        if not len(experts.seen_classes):
            exemplars = ExemplarBuffer.draw(rows[:0], np.zeros(0, dtype=np.intp), _EXEMPLARS)
        if training is not None:
            others = check_features(self.encode(training[0]), name="training rows", columns=width)
            codes = encode_labels(training[1], experts.seen_classes, name="labels of training rows")
            if len(codes) != len(others):
                raise ValueError(f"training has {len(others)} rows but {len(codes)} labels")
            missing = experts.seen_classes[np.bincount(codes, minlength=len(experts.seen_classes)) == 0]
            if len(missing):
                raise ValueError(f"training has no rows of the seen class {missing[0]!r}")
            exemplars = ExemplarBuffer.draw(others, codes, _EXEMPLARS)
        elif exemplars is None:
            raise ValueError("the model has no exemplar buffer: give training=(samples, labels)")
        self.cosmo.experts_, self.exemplars = learn(experts, self.cosmo.combination_, rows, y, exemplars)
        known = self.summary.get("learned", {})
        counts = y.astype(str).value_counts(sort=False)
        self.summary["learned"] = known | {name: known.get(name, 0) + int(n) for name, n in counts.items()}
        return self

    def card(self) -> dict[str, Any]:
        """Return the model card: facts about data, experts, gate and validation, as plain values."""
        cosmo = self.cosmo
        experts, point, curve = cosmo.experts_, cosmo.operating_point_, cosmo.validation_curve_
        return {
            **self.summary,
            "features": int(cosmo.n_features_in_),
            "encoder": self.encoder_name,
            "described by": "words" if self.texts is not None else f"{experts.descriptions.shape[1]} numbers",
            "seen classes": len(cosmo.seen_classes_),
            "unseen classes": len(cosmo.unseen_classes_),
            "seen expert": " ".join(repr(experts.seen).split()),
            "unseen expert": type(getattr(experts.unseen, "expert", experts.unseen)).__name__,
            "transform": experts.transform,
            "chosen": {name: plain_value(value) for name, value in experts.unseen.decided_.items()},
            **({} if cosmo.choice_ is None else {"compared": cosmo.choice_.rows()}),
            "method": cosmo.method,
            "gate": " ".join(repr(cosmo.combination_.gate_).split()),
            **model_file.operating_card(cosmo),
            "validation": {**curve.at(point.threshold)._asdict(), "ausuc": curve.area},
            "exemplars": 0 if self.exemplars is None else len(self.exemplars.rows),
        }

    def __str__(self) -> str:
        return model_file.card_text(self.card())

    def fingerprint(self) -> str:
        """Return a hash of everything that predictions depend on."""
        return fingerprint(*pack(self, "model"))


def load(path: str | Path, *, trusted: Iterable[str | type] = ()) -> Cosmo:
    """Return the classifier of a file that `Cosmo.save`, `Model.save` or `cosmo fit` wrote.

    It takes feature rows; `Model.load` returns it with the encoder of its samples. See
    `cosmo.io.model_file.load` for `trusted`.
    """
    return Model.load(path, trusted=trusted).cosmo


def fit_model(
    X: Any,
    y: Iterable[Hashable],
    descriptions: Descriptions,
    *,
    encoder: str | Encoder | None = None,
    name: str | None = None,
    date: str | None = None,
    exemplars: int = _EXEMPLARS,
    **cosmo_params: Any,
) -> Model:
    """Fit a model that can be saved; parts that cannot raise ModelError before the training.

    Parameters
    ----------
    X : samples
        Feature rows (array or DataFrame), or, with an encoder, texts or paths of images. Without any, and
        with descriptions in the space of the samples, the model predicts the nearest description.
    y : labels, one per sample
        Classes in `y` are seen.
    descriptions : DataFrame, Series or dict
        A row of numbers, a sentence or a list of sentences for each class, seen and unseen. Sentences require
        an encoder; several of a class are averaged, or the best counts: `SimilarityExpert(prompts="best")`.
    encoder : str or Encoder, optional
        See `cosmo.encoders.make_encoder`.
    name, date : str, optional
        Name of the data and date of the training, for the card.
    exemplars : int, default=20
        Training rows per seen class in the exemplar buffer, which `Model.learn` uses; 0 for none.
    **cosmo_params
        Parameters of `Cosmo`: experts, gate, smoothing and so on.

    Examples
    --------
    >>> X = [[0.0, 1.0], [0.1, 0.9], [1.0, 0.0], [0.9, 0.1]] * 4
    >>> y = ["sea", "sea", "land", "land"] * 4
    >>> model = fit_model(X, y, {"sea": [1, 0], "land": [0, 1], "coast": [1, 1]})
    >>> model.classes["seen"].to_dict()
    {'sea': True, 'land': True, 'coast': False}
    """
    if exemplars < 0 or int(exemplars) != exemplars:
        raise ValueError(f"exemplars must be a whole number, 0 or more, got {exemplars}")
    if isinstance(encoder, str):
        encoder = make_encoder(encoder)
    texts = _texts(descriptions)
    if texts is not None:
        if encoder is None:
            raise ValueError("descriptions in words need an encoder such as 'minilm'; or give numbers")
        best = getattr(cosmo_params.get("unseen"), "prompts", "") == "best"
        n = max(len(text.splitlines()) for text in texts.values()) if best else 1
        descriptions = _encode_texts(encoder, texts, n)
    names = None
    if isinstance(X, pd.DataFrame):
        names = [str(column) for column in X.columns]
        X = X.set_axis(names, axis=1)
    model = Model(Cosmo(descriptions, **cosmo_params), texts, feature_names=names)
    if encoder is not None:
        model.encoder_name, model.encoder_identity, model._encoder = encoder.name, encoder.identity, encoder
    if isinstance(X, Sequence) and not X:
        fit_zero_shot(model.cosmo, None if encoder is None else encoder.n_features)
        model.summary = {"data": name, "date": date, "samples": 0, "versions": versions()}
        return model
    rows, labels = model.encode(X), as_class_index(y)
    model_file.check_storable(model.cosmo, rows, labels)
    model.cosmo.fit(rows, labels)
    codes = model.cosmo.seen_classes_.get_indexer(labels)
    if exemplars:
        model.exemplars = ExemplarBuffer.draw(np.asarray(rows, dtype=np.float32), codes, exemplars)
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
    """Return the sentence of each class, or None if the descriptions are numbers."""
    if isinstance(descriptions, pd.DataFrame):
        return None
    if not isinstance(descriptions, Mapping | pd.Series):
        raise TypeError(
            "descriptions must be a DataFrame of numbers, or a dict or Series from class to sentence or "
            f"vector, got {type(descriptions).__name__}"
        )
    pairs = {plain_value(label): _lines(text) for label, text in descriptions.items()}
    if not any(isinstance(text, str) for text in pairs.values()):
        return None
    for label, text in pairs.items():
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"the description of {label!r} must be a sentence, got {text!r}")
    return pairs


def _encode_texts(encoder: Encoder, texts: Mapping[Hashable, str], side_by_side: int) -> pd.DataFrame:
    rows = encode_classes(encoder, list(texts.values()), side_by_side)
    return pd.DataFrame(rows, index=as_class_index(texts))


def _lines(text: Any) -> Any:
    """Return several sentences as lines of one text."""
    several = isinstance(text, list | tuple) and text and all(isinstance(one, str) for one in text)
    return "\n".join(text) if several else text
