"""The model that is being looked at: asked about samples, and extended by classes that can be taken back."""

from __future__ import annotations

import html
import math
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Hashable, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cosmo._core.extras import MissingExtra
from cosmo._core.validation import check_features
from cosmo.classifier.explain import explain
from cosmo.data.descriptions import match_labels
from cosmo.encoders import ENCODERS, Encoder, ItemError
from cosmo.evaluation.evaluate import evaluate_model
from cosmo.io.model import Model
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.viz.page import model_view, render_page
from cosmo.viz.page.packing import compress
from cosmo.viz.page.views import MOST_SAMPLES
from cosmo.viz.studio.limits import Refusal
from cosmo.viz.studio.states import Samples, State, asked_again, change

__all__ = ["Live"]

T = TypeVar("T")

_SHOWN = 5  # classes of each expert
_LONGEST = float(np.finfo(np.float32).max) ** 0.5  # beyond, the square of a description's length is infinite
_FARTHEST = 1e300  # in place of infinity, which JSON does not have
_POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]*)"')


class Live:
    """A model behind the page, for several threads.

    Parameters
    ----------
    model : Model
        Never changed: kept classes belong to copies.
    samples : Samples, optional
        To be shown and to measure new classes on. Without them the page shows `view`, or what the model
        recorded of its validation.
    view : dict, optional
        Of the run that the model comes from.
    title : str
        Of the page.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> from cosmo.io.model import fit_model
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> train = data.split.trainval
    >>> live = Live(fit_model(data.features[train], data.labels[train], data.descriptions))
    >>> live.takes, live.described_by
    ('features', 'numbers')
    >>> record = live.predict(data.features[0])
    >>> record["classes"][record["seen"]] in live.names
    True
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
        self._view = view
        # Experts may train a last classifier when they are asked, and keep it: one question at a time.
        self._asking = threading.RLock()
        # Encoders are loaded once, and their tokenizers do not take two threads. Asked for after `_asking`.
        self._encoding = threading.RLock()
        self._shown_of: State | None = None
        self._shown: dict[str, Any] = {}
        self._state = State(model)
        if samples is not None:
            samples = samples.thinned(MOST_SAMPLES)
            rows = check_features(samples.rows, name="samples")
            labels = match_labels(samples.labels, model.cosmo.experts_.descriptions.index)
            found = evaluate_model(model, rows, labels)
            samples = Samples(rows, labels, samples.items)
            self._state = State(model, samples=samples, outputs=found.outputs, found=found)
        self._loaded = self._state

    @property
    def names(self) -> list[str]:
        """Names of all classes, seen ones first."""
        return self._state.names

    @property
    def kept(self) -> list[str]:
        """Classes that were added to the model as it was loaded."""
        return list(self._state.kept)

    @property
    def n_seen(self) -> int:
        """Number of seen classes."""
        return len(self._loaded.model.cosmo.seen_classes_)

    @property
    def n_features(self) -> int:
        """Length of a feature row."""
        return int(self._loaded.model.cosmo.n_features_in_)

    @property
    def has_samples(self) -> bool:
        """Whether new classes can be measured."""
        return self._loaded.samples is not None

    @cached_property
    def takes(self) -> str:
        """What a sample is: "text", "images" or "features"."""
        model = self._loaded.model
        kind: str | None = model.summary.get("kind")
        if kind is None:
            kind = "features"
            if model.encoder_name is not None:
                kind = ENCODERS[model.encoder_name.partition(":")[0]].kind
        return kind

    @property
    def described_by(self) -> str:
        """How a new class is described: by "words" or "numbers"."""
        return "numbers" if self._loaded.model.texts is None else "words"

    @cached_property
    def attributes(self) -> list[str] | None:
        """Names of the numbers that describe a class."""
        if self.described_by == "words":
            return None
        columns = self._loaded.model.cosmo.experts_.descriptions.columns
        if columns.nlevels == 1:
            return [str(name) for name in columns]
        return ["::".join(map(str, name)) for name in columns]

    def encode(self, item: Any) -> NDArray[np.float32]:
        """Return a text, or the picture at a path, as a feature row.

        Raises
        ------
        Refusal
            If it cannot be read, or the encoder cannot be loaded.
        """
        try:
            with self._encoding:
                return self._encoder().encode([item])[0]
        except ItemError as error:
            reason = str(error).removeprefix(f"{item}: ")  # where it lies is nobody's business
            raise Refusal(422, f"the sample cannot be used: {reason}; send another") from error

    def _encoder(self) -> Encoder:
        with self._encoding:
            try:
                return self._loaded.model.encoder
            except (ValueError, OSError, MissingExtra) as error:
                raise Refusal(503, f"the encoder cannot be loaded: {error}") from error

    def predict(self, row: NDArray[Any] | Sequence[float]) -> dict[str, Any]:
        """Return every step from the experts to the answer, for one feature row.

        Raises
        ------
        Refusal
            If its numbers are so large that the experts cannot reckon with them.
        """
        state = self._state
        mixture = state.model.cosmo.combination_
        with self._asking, np.errstate(over="ignore", invalid="ignore"):
            try:
                outputs = state.model.cosmo.outputs(np.asarray(row, dtype=np.float32)[None])
            except ValueError as error:  # of probabilities that are none
                raise Refusal(422, "the features are too large; scale them as in the training") from error
            told = explain(mixture, outputs)
            flip = float(mixture.flips(outputs)[0])
        seen, unseen = _best(outputs.seen[0]), _best(outputs.unseen[0])
        best = int(told.proba[0].argmax())
        return {
            "score": float(told.gate_score[0]),
            "seen_mass": float(outputs.seen[0].sum(dtype=np.float64)),
            "unseen_mass": float(outputs.unseen[0].sum(dtype=np.float64)),
            "seen_codes": seen.tolist(),
            "seen_proba": outputs.seen[0][seen].tolist(),
            "unseen_codes": (unseen + outputs.n_seen).tolist(),
            "unseen_proba": outputs.unseen[0][unseen].tolist(),
            "flip": min(max(flip, -_FARTHEST), _FARTHEST),
            "seen": int(outputs.seen_choice[0]),
            "unseen": int(outputs.unseen_choice[0]) + outputs.n_seen,
            "answer": state.names[best],
            "probability": float(told.proba[0, best]),
            "p_unseen": float(told.p_unseen[0]),
            "classes": state.names,
            "n_seen": outputs.n_seen,
        }

    def preview(self, name: str, description: str | list[float]) -> dict[str, Any]:
        """Return what a new class would change; nothing is kept.

        Parameters
        ----------
        name : str
        description : str or list of float
            A sentence, or a number for each attribute.
        """
        state = self._state
        with self._asking:
            return change(state, self._extended(state, name, description))

    def keep(self, name: str, description: str | list[float], most: int) -> None:
        """Add a class to the model that is looked at, unless `most` are kept already."""
        with self._asking:
            state = self._state
            if len(state.kept) >= most:
                raise Refusal(422, f"{most} classes are kept already; save the model, or undo")
            self._state = self._extended(state, name, description)

    def undo(self) -> None:
        """Go back to the model as it was loaded."""
        with self._asking:
            self._state = self._loaded

    def _extended(self, state: State, name: str, description: str | list[float]) -> State:
        if name in state.names:
            raise Refusal(422, f"there is a class {name!r} already; choose another name")
        numbered = state.classes.dtype.kind == "i"  # then "7" is the class 7
        if numbered and not re.fullmatch(r"[0-9]{1,18}", name):
            raise Refusal(422, f"the classes of this model are whole numbers; {name!r} is none")
        if not isinstance(description, str) and math.hypot(*description) > _LONGEST:
            raise Refusal(422, "the values are too large; scale them as those of the other classes")
        label: Hashable = int(name) if numbered else name
        model = copy(state.model)
        model.cosmo = copy(model.cosmo)
        try:
            with self._encoding:
                if isinstance(description, str):
                    model._encoder = self._encoder()
                model.add_classes({label: description})
            outputs, scores = _answers(state, model)  # experts may refuse a description when they are asked
        except ItemError as error:
            raise Refusal(422, f"the description cannot be used: {error}") from error
        except ValueError as error:
            raise Refusal(422, f"the class cannot be added: {error}") from error
        return State(model, (*state.kept, name), state.samples, outputs, scores)

    def page(self, live: dict[str, Any]) -> tuple[str, str]:
        """Return the page of the model as it is now, and the content security policy that it asks for.

        Parameters
        ----------
        live : dict
            What the page needs to know of the server, see `render_page`; always the same.
        """

        def made(state: State) -> tuple[str, str]:
            page = render_page(self._view_of(state), live={**live, "kept": list(state.kept)})
            found = _POLICY.search(page)
            if found is None:
                raise RuntimeError("the page has no content security policy")
            return page, html.unescape(found[1])

        return self._once("page", made)

    def view(self) -> str:
        """Return the view of the model as it is now, compressed as in the page."""
        return self._once("view", lambda state: compress(self._view_of(state)))

    def _once(self, what: str, make: Callable[[State], T]) -> T:
        """Return something that depends on the state, made when it is first asked for."""
        with self._asking:
            if self._shown_of is not self._state:
                self._shown_of, self._shown = self._state, {}
            if what not in self._shown:
                self._shown[what] = make(self._state)
            found: T = self._shown[what]
            return found

    def _view_of(self, state: State) -> dict[str, Any]:
        if state.samples is not None:
            rows, labels, items = state.samples.rows, state.samples.labels, state.samples.items
            found = state.found or evaluate_model(state.model, rows, labels)
            return model_view(state.model, found, name=self.title, items=items)
        view = model_view(state.model) if self._view is None else self._view
        if not state.kept:
            return view
        names = ", ".join(state.kept)
        note = f"Kept classes ({names}) take part in new answers; the charts are of the model without them."
        return {**view, "lead": f"{view.get('lead', '')} {note}".strip()}

    def saved(self) -> IO[bytes]:
        """Return the model with its kept classes as a file, which vanishes when it is closed."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.cosmo")
            with self._asking:
                self._state.model.save(path)
            file = tempfile.TemporaryFile()  # noqa: SIM115 - whoever gets it closes it
            with path.open("rb") as content:
                shutil.copyfileobj(content, file)
        file.seek(0)
        return file


def _answers(state: State, model: Model) -> tuple[ExpertOutputs | None, NDArray[np.float32] | None]:
    """Return what an extended model says about the samples; without any, see to it that it can answer."""
    if state.samples is not None:
        return asked_again(state, model)
    model.cosmo.outputs(np.zeros((1, model.cosmo.n_features_in_), dtype=np.float32))
    return None, None


def _best(proba: NDArray[Any]) -> NDArray[np.intp]:
    """Return the columns of the few largest, descending; of equal ones the first."""
    return np.argsort(-proba, kind="stable")[:_SHOWN]
