"""The model behind the page: predictions, and classes that can be added and removed."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Hashable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from starlette.exceptions import HTTPException

from cosmo._core import MissingExtra
from cosmo._core.validation import check_features
from cosmo.classifier._prediction import explain
from cosmo.data.dataset import ItemError
from cosmo.data.tables import match_labels
from cosmo.encoders import Encoder
from cosmo.evaluation.evaluate import ModelEvaluation, UnknownEvaluation, evaluate_model, evaluate_unknown
from cosmo.io.discover import discover
from cosmo.io.model import Model
from cosmo.io.predict import kind_of
from cosmo.viz.page import MAX_SAMPLES, evenly_spaced, model_view, render_page
from cosmo.viz.page.render import compress

MAX_ADDED = 100  # classes
_TOP = 5  # classes of each expert
_NEIGHBOURS, _SOURCES, _EXAMPLES = 5, 10, 20  # shown of a preview
_LONGEST = float(np.finfo(np.float32).max) ** 0.5  # The square of a longer description overflows.
_UNKNOWN = "\0"  # label of unknown samples; no class has it
_LARGEST_FLIP = 1e300  # JSON has no infinity.


@dataclass(frozen=True, eq=False)
class Samples:
    """Labelled samples on which a model is shown; `items` are texts or paths before encoding.

    `unknown` are samples of no class of the model.
    """

    rows: NDArray[np.float32]
    labels: pd.Index
    items: Sequence[Any] | None = None
    unknown: Samples | None = None

    def subsample(self, most: int) -> Samples:
        """Return at most `most` samples, evenly spaced."""
        if len(self.rows) <= most:
            return self
        places = evenly_spaced(len(self.rows), most)
        items = None if self.items is None else [self.items[place] for place in places]
        return Samples(self.rows[places], self.labels[places], items, self.unknown)


@dataclass(frozen=True, eq=False)
class _State:
    """A model with its changes so far, and its evaluation; replaced by each change."""

    model: Model
    added: tuple[str, ...] = ()
    evaluation: ModelEvaluation | None = None
    moved: bool = False  # whether the operating point has been set
    unknown: UnknownEvaluation | None = None

    @cached_property
    def names(self) -> list[str]:
        """Names of all classes, seen ones first."""
        cosmo = self.model.cosmo
        return [str(label) for label in (*cosmo.seen_classes_, *cosmo.unseen_classes_)]


class LiveModel:
    """A model behind the page; its methods may be called from several threads.

    The model is never modified: classes are added to copies. `samples` are shown on the page and used to
    measure new classes; without them the page shows `view`, that of the run, or the validation stage that is
    stored in the model.
    """

    def __init__(
        self,
        model: Model,
        samples: Samples | None = None,
        *,
        view: dict[str, Any] | None = None,
        title: str = "model",
    ) -> None:
        self.title = title
        self._view, self._samples = view, None
        # Experts may train a final classifier at their first prediction, and tokenizers are not thread-safe.
        self._lock = threading.RLock()
        if samples is not None:
            samples = samples.subsample(MAX_SAMPLES)
            rows = check_features(samples.rows, name="samples")
            labels = match_labels(samples.labels, model.cosmo.experts_.descriptions.index)
            self._samples = Samples(rows, labels, samples.items, samples.unknown)
        self._loaded = self._state = self._evaluated(model)

    def _evaluated(self, model: Model, added: tuple[str, ...] = (), moved: bool = False) -> _State:
        if self._samples is None:
            return _State(model, added, None, moved)
        rows, labels, others = self._samples.rows, self._samples.labels, self._samples.unknown
        unknown = None
        if others is not None:
            both = labels.astype(object).append(pd.Index([_UNKNOWN] * len(others.rows), dtype=object))
            unknown = evaluate_unknown(model.cosmo, np.concatenate([rows, others.rows]), both, _UNKNOWN)
        return _State(model, added, evaluate_model(model, rows, labels), moved, unknown)

    @property
    def names(self) -> list[str]:
        """Names of all classes, seen ones first."""
        return self._state.names

    @property
    def added(self) -> list[str]:
        """Names of the added classes."""
        return list(self._state.added)

    @property
    def n_features(self) -> int:
        """Length of a feature row."""
        return int(self._loaded.model.cosmo.n_features_in_)

    @property
    def n_seen(self) -> int:
        """Number of seen classes."""
        return len(self._loaded.model.cosmo.seen_classes_)

    @property
    def takes(self) -> str:
        """Kind of a sample: "text", "images" or "features"."""
        return kind_of(self._loaded.model)

    @property
    def point(self) -> str:
        """Name of the operating point: "unseen_share" of a calibrated model, else "threshold"."""
        calibrated = self._loaded.model.cosmo.combination_.unseen_share is not None
        return "unseen_share" if calibrated else "threshold"

    @property
    def attributes(self) -> list[str] | None:
        """Names of the numbers that describe a class; None if words do."""
        if self._loaded.model.texts is not None:
            return None
        columns = self._loaded.model.cosmo.experts_.descriptions.columns
        return ["::".join(map(str, name)) if columns.nlevels > 1 else str(name) for name in columns]

    def encode(self, item: Any) -> NDArray[np.float32]:
        """Return the feature row of a text, or of the image at a path."""
        try:
            with self._lock:
                return self._encoder().encode([item])[0]
        except ItemError as error:
            reason = str(error).removeprefix(f"{item}: ")  # without the path of a temporary file
            raise HTTPException(422, f"the sample cannot be used: {reason}") from error

    def _encoder(self) -> Encoder:
        try:
            return self._loaded.model.encoder.loaded()
        except (ValueError, OSError, MissingExtra) as error:
            raise HTTPException(503, f"the encoder cannot be loaded: {error}") from error

    def predict(self, row: NDArray[Any] | Sequence[float]) -> dict[str, Any]:
        """Return the prediction for one feature row, with all steps from the experts to the answer."""
        if len(row) != self.n_features:
            raise HTTPException(422, f"features must have {self.n_features} numbers, got {len(row)}")
        state = self._state
        mixture = state.model.cosmo.combination_
        with self._lock, np.errstate(over="ignore", invalid="ignore"):
            try:
                outputs = state.model.cosmo.outputs(np.asarray(row, dtype=np.float32)[None])
            except ValueError as error:  # The probabilities are not finite.
                raise HTTPException(422, "features: too large; scale them as in the training") from error
            explanation = explain(mixture, outputs)
            flip = float(mixture.flips(outputs)[0])
            rejects = getattr(mixture, "rejection_", None) is not None
            conformity = float(state.model.cosmo.conformity(np.asarray(row)[None])[0]) if rejects else None
        seen, unseen = (np.argsort(-one[0], kind="stable")[:_TOP] for one in (outputs.seen, outputs.unseen))
        best = int(explanation.proba[0].argmax())
        return {
            "score": float(explanation.gate_score[0]),
            "seen_mass": float(outputs.seen[0].sum(dtype=np.float64)),
            "unseen_mass": float(outputs.unseen[0].sum(dtype=np.float64)),
            "seen_codes": seen.tolist(),
            "seen_proba": outputs.seen[0][seen].tolist(),
            "unseen_codes": (unseen + outputs.n_seen).tolist(),
            "unseen_proba": outputs.unseen[0][unseen].tolist(),
            "flip": min(max(flip, -_LARGEST_FLIP), _LARGEST_FLIP),
            "seen": int(outputs.seen_choice[0]),
            "unseen": int(outputs.unseen_choice[0]) + outputs.n_seen,
            "answer": state.names[best],
            "probability": float(explanation.proba[0, best]),
            "p_unseen": float(explanation.p_unseen[0]),
            "conformity": conformity,
            "classes": state.names,
            "n_seen": outputs.n_seen,
        }

    def operate_at(self, **point: float) -> None:
        """Set the operating point of the running model, with the arguments of `Cosmo.operate_at`."""
        with self._lock:
            state = self._state
            model = copy(state.model)
            model.cosmo = copy(model.cosmo)
            model.cosmo.combination_ = copy(model.cosmo.combination_)
            model.cosmo.operate_at(**point)
            self._state = self._evaluated(model, state.added, moved=True)

    def preview(self, name: str, description: str | list[float]) -> dict[str, Any]:
        """Return the effect of a new class on the samples, without adding it."""
        with self._lock:
            return _effect(self._state, self._extended(name, description))

    def add_class(self, name: str, description: str | list[float]) -> None:
        """Add a class to the running model."""
        with self._lock:
            if len(self._state.added) >= MAX_ADDED:
                raise HTTPException(422, f"{MAX_ADDED} classes have been added: download the model, or undo")
            self._state = self._extended(name, description)

    @property
    def can_discover(self) -> bool:
        """Whether there are samples to group, and a model that rejects some of them."""
        model = self._loaded.model
        rejects = getattr(model.cosmo.combination_, "rejection_", None) is not None
        return self._samples is not None and rejects and model.exemplars is not None

    def discover(self, smallest: int) -> list[dict[str, Any]]:
        """Return groups of rejected samples, each with a draft of a class."""
        if not self.can_discover or self._samples is None:
            raise HTTPException(422, "start the studio with samples and a model that can reject")
        parts = [one for one in (self._samples, self._samples.unknown) if one is not None]
        listed = [one.items for one in parts if one.items is not None]
        items = [item for some in listed for item in some] if len(listed) == len(parts) else None
        with self._lock:
            rows = np.concatenate([one.rows for one in parts])
            found = discover(self._state.model, items, rows=rows, smallest=smallest)
        drafts = found.descriptions
        groups = []
        for k, (name, group) in enumerate(found.groups.iterrows()):
            draft = drafts.iloc[k]
            groups.append(
                {
                    "name": str(name),
                    "size": int(group["size"]),
                    "nearest": group["nearest"],
                    "typical": [
                        f"sample {j + 1}" if items is None else str(items[j]) for j in group["typical"]
                    ],
                    "description": draft if isinstance(draft, str) else None,
                    "values": None if isinstance(draft, str) else draft.astype(float).round(4).tolist(),
                }
            )
        return groups

    def reset(self) -> None:
        """Return to the model as it was loaded."""
        with self._lock:
            self._state = self._loaded

    def _extended(self, name: str, description: str | list[float]) -> _State:
        state = self._state
        if name in state.names:
            raise HTTPException(422, f"there is a class {name!r} already; choose another name")
        numbered = state.model.cosmo.seen_classes_.dtype.kind == "i"
        if numbered and not re.fullmatch(r"[0-9]{1,18}", name):
            raise HTTPException(422, f"the classes of this model are whole numbers, got {name!r}")
        if not isinstance(description, str) and math.hypot(*description) > _LONGEST:
            raise HTTPException(422, "values: too large; scale them as those of the other classes")
        label: Hashable = int(name) if numbered else name
        model = copy(state.model)
        model.cosmo = copy(model.cosmo)
        try:
            if isinstance(description, str):
                model._encoder = self._encoder()
            model.add_classes({label: description})
            if self._samples is None:  # Some experts check descriptions at the first prediction only.
                model.cosmo.outputs(np.zeros((1, self.n_features), dtype=np.float32))
            return self._evaluated(model, (*state.added, name), state.moved)
        except ValueError as error:  # ItemError of an encoder included
            raise HTTPException(422, f"the class cannot be added: {error}") from error

    def page(self, live: dict[str, Any]) -> str:
        """Return the page of the current model; `live` has facts about the server."""
        facts = {
            **live,
            "takes": self.takes,
            "features": self.n_features,
            "described_by": "numbers" if self._loaded.model.texts is None else "words",
            "attributes": self.attributes,
            "samples": self._samples is not None,
            "discovers": self.can_discover,
            "kept": self.added,
            "point": self.point,
        }
        with self._lock:
            return render_page(self._current_view(), live=facts)

    def view(self) -> str:
        """Return the view of the current model, compressed as in the page."""
        with self._lock:
            return compress(self._current_view())

    def _current_view(self) -> dict[str, Any]:
        state = self._state
        if self._samples is not None:
            items = self._samples.items
            return model_view(
                state.model, state.evaluation, name=self.title, items=items, unknown=state.unknown
            )
        view = model_view(state.model) if self._view is None else self._view
        notes = [view.get("lead", "")]
        if state.added:
            names = ", ".join(state.added)
            notes.append(f"Added classes ({names}) are in new predictions only, not in the charts.")
        if state.moved and self._view is not None:
            notes.append("The operating point of the model has been set; the charts show the one of the run.")
        return {**view, "lead": " ".join(filter(None, notes))}

    def save(self, path: Path) -> None:
        """Write the model with its added classes to a file."""
        with self._lock:
            self._state.model.save(path)


def _effect(before: _State, after: _State) -> dict[str, Any]:
    """Return the effect of the last class of `after`: accuracies, changed predictions, similar classes."""
    effect = {"name": after.added[-1], "neighbours": _most_similar(after.model.cosmo.experts_.descriptions)}
    if before.evaluation is None or after.evaluation is None:
        no_scores: dict[str, Any] = {"before": None, "after": None, "taken": 0, "of": 0}
        return {**effect, **no_scores, "taken_from": [], "examples": []}
    old, new = (one.predictions["prediction"].to_numpy() for one in (before.evaluation, after.evaluation))
    taken = np.flatnonzero(new == after.model.cosmo.experts_.descriptions.index[-1])
    sources = pd.Series(old[taken], dtype=object).value_counts().head(_SOURCES)
    return {
        **effect,
        "before": _accuracies(before.evaluation),
        "after": _accuracies(after.evaluation),
        "taken": len(taken),
        "of": len(old),
        "taken_from": [[str(name), int(count)] for name, count in sources.items()],
        "examples": taken[:_EXAMPLES].tolist(),
    }


def _accuracies(evaluation: ModelEvaluation) -> dict[str, float | None]:
    scores = evaluation.scores._asdict()
    return {name: None if math.isnan(value) else float(value) for name, value in scores.items()}


def _most_similar(descriptions: pd.DataFrame) -> list[list[Any]]:
    """Return the classes whose descriptions have the largest cosine with the last one."""
    table = descriptions.to_numpy(dtype=np.float64)
    lengths = np.linalg.norm(table, axis=1)
    table = table / np.where(lengths > 0, lengths, 1)[:, None]
    cosines = table[:-1] @ table[-1]
    nearest = np.argsort(-cosines, kind="stable")[:_NEIGHBOURS]
    return [[str(descriptions.index[place]), float(cosines[place])] for place in nearest]
