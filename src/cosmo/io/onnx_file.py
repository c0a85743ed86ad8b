"""Models with linear experts as ONNX files, from feature rows to probabilities (extra "onnx")."""

from __future__ import annotations

import json
from collections.abc import Hashable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from cosmo import __version__
from cosmo._core import require
from cosmo._core.files import write_atomic
from cosmo.classifier._cosmo import Cosmo
from cosmo.experts import EnsembleExpert, SimilarityExpert, SoftmaxRegression, UnseenExpert
from cosmo.experts.base import plain_value
from cosmo.io.model import Model
from cosmo.mixture import confidences

_OPSET, _IR_VERSION = 18, 10  # of ONNX 1.14 and 1.16
_TINY = np.finfo(np.float32).tiny
_MOST = 1e-4  # difference of probabilities that `largest_difference` puts down to rounding


class _Graph:
    """Nodes of a graph: `graph.Mul(a, 2.0)` adds one and returns the name of its result."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.onnx = require("onnx")

    def __getattr__(self, kind: str) -> Any:
        return partial(self._add, kind)

    def _add(self, kind: str, *inputs: Any, output: str | None = None, n: int = 1, **attributes: Any) -> Any:
        names = [one if isinstance(one, str) else self._constant(one) for one in inputs]
        results = [output or f"{kind}_{len(self.nodes)}_{k}" for k in range(n)]
        self.nodes.append(self.onnx.helper.make_node(kind, names, results, **attributes))
        return results[0] if n == 1 else results

    def _constant(self, value: Any) -> str:
        """Add a constant: single precision, or whole numbers, or texts."""
        array = np.asarray(value)
        array = array.astype({"f": np.float32, "i": np.int64}.get(array.dtype.kind, object))
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def columns(self, rows: str, first: int, last: int) -> str:
        """Return some columns."""
        return self.Slice(rows, [first], [last], [1])

    def most(self, rows: str) -> str:
        """Return the maximum of each row, as a column."""
        return self.ReduceMax(rows, [1])

    def unit(self, rows: str) -> str:
        """Return rows of length one; those of zeros are unchanged."""
        length = self.ReduceL2(rows, [1])
        return self.Div(rows, self.Where(self.Greater(length, 0.0), length, 1.0))

    def linear(self, rows: str, weights: NDArray[Any], bias: NDArray[Any]) -> str:
        """Return `rows @ weights + bias`."""
        return self.Add(self.MatMul(rows, weights), bias)


def export_onnx(model: Model | Cosmo, path: str | Path) -> None:
    """Write a model of the calibrated method whose experts are linear as an ONNX file.

    Its input `features` are feature rows, in single precision; texts and images are encoded before. Outputs
    are `label`, `probabilities` in the order of the classes, and `p_seen`: those of `Cosmo`, up to rounding.
    The file's metadata has the `classes`, `seen_classes`, the `encoder` and the version of this package.
    Rejection is not part of the file.

    Parameters
    ----------
    model : Model or Cosmo
        Its seen expert is a `SoftmaxRegression`, a `Discriminant` or scikit-learn's logistic regression, its
        unseen expert linear, such as `ESZSL` and `GaussianExpert`, or a `SimilarityExpert`, or an ensemble of
        such. It learned nothing after the training.
    path : path

    Raises
    ------
    ValueError
        If the model is of another kind; the message names the part.

    Examples
    --------
    >>> import tempfile
    >>> from cosmo import fit_model
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> train = data.split.trainval
    >>> model = fit_model(data.features[train], data.labels[train], data.descriptions)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_onnx(model, f"{folder}/glyphs.onnx")
    """
    cosmo = model.cosmo if isinstance(model, Model) else model
    graph = _Graph()
    _build(graph, cosmo)
    helper, proto = graph.onnx.helper, graph.onnx.TensorProto
    classes = [plain_value(name) for name in cosmo.classes_]
    kind = proto.INT64 if _label_values(classes)[0] else proto.STRING
    value = helper.make_tensor_value_info
    outputs = [
        value("label", kind, ["n"]),
        value("probabilities", proto.FLOAT, ["n", len(classes)]),
        value("p_seen", proto.FLOAT, ["n"]),
    ]
    inputs = [value("features", proto.FLOAT, ["n", int(cosmo.n_features_in_)])]
    content = helper.make_model(
        helper.make_graph(graph.nodes, "cosmo", inputs, outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="cosmo-gzsl",
        producer_version=__version__,
    )
    facts = {
        "classes": classes,
        "seen_classes": [plain_value(name) for name in cosmo.seen_classes_],
        "encoder": model.encoder_name if isinstance(model, Model) else None,
        "feature_names": model.feature_names if isinstance(model, Model) else None,
    }
    helper.set_model_props(content, {name: json.dumps(fact) for name, fact in facts.items()})
    graph.onnx.checker.check_model(content, full_check=True)
    write_atomic(Path(path), content.SerializeToString())


def largest_difference(model: Model | Cosmo, path: str | Path, rows: NDArray[Any]) -> float:
    """Return the largest difference of a file's probabilities to the model's; raise if it is no rounding."""
    cosmo = model.cosmo if isinstance(model, Model) else model
    session = require("onnxruntime").InferenceSession(str(path), providers=["CPUExecutionProvider"])
    rows = np.asarray(rows, dtype=np.float32)
    _, proba, p_seen = session.run(None, {"features": rows})
    _, _, expected = cosmo.predict_top(rows, 1)
    difference = max(abs(proba - cosmo.predict_proba(rows)).max(), abs(p_seen - expected).max())
    if not difference <= _MOST:
        raise ValueError(f"{path}: probabilities differ by up to {difference:.1e} from those of the model")
    return float(difference)


def _build(graph: _Graph, cosmo: Cosmo) -> None:
    """Add all nodes, from `features` to the outputs."""
    experts, mixture = cosmo.experts_, cosmo.combination_
    if experts.temperatures is None:
        raise ValueError("a model of the paper's method cannot be exported; fit with the calibrated method")
    experts.check_trained("it cannot be exported")
    if experts.corrections is not None:
        raise ValueError("a model that learned after its training cannot be exported; fit it on all samples")
    n_seen, n = len(experts.seen_classes), len(experts.classes)
    if n_seen == n:
        raise ValueError("a model without unseen classes cannot be exported; add one")
    rows = _transformed(graph, experts.transform)
    logits = _logits(graph, experts.seen, rows, n_seen)
    table = experts.descriptions.loc[experts.classes]
    scores = _scores(graph, experts.unseen, rows, table)

    at_t = graph.Div(logits, experts.temperatures.seen)
    powers = graph.Exp(graph.Sub(at_t, graph.most(at_t)))
    double, single = graph.onnx.TensorProto.DOUBLE, graph.onnx.TensorProto.FLOAT
    total = graph.ReduceSum(graph.Cast(powers, to=double), [1])
    others = graph.Sub(total, graph.Cast(1.0, to=double))  # The best class has exp(0).
    others = graph.Max(graph.Cast(others, to=single), np.exp(-confidences.LIMIT))
    gate_scores = graph.Div(scores, experts.temperatures.gate)
    parts = graph.columns(gate_scores, 0, n_seen), graph.columns(gate_scores, n_seen, n)
    best = [graph.most(part) for part in parts]
    means = [
        graph.Add(top, graph.Log(graph.ReduceMean(graph.Exp(graph.Sub(part, top)), [1])))
        for part, top in zip(parts, best, strict=True)
    ]
    own = graph.GatherElements(gate_scores, graph.ArgMax(at_t, axis=1), axis=1)
    inputs = graph.Concat(
        graph.Neg(graph.Log(others)),
        graph.Sub(best[1], best[0]),
        graph.Sub(means[1], means[0]),
        graph.Sub(best[0], own),
        axis=1,
    )
    gate, point = mixture.gate_, mixture.operating_point_
    slopes = gate.weights_ / gate.spread_
    bias = gate.bias_ - gate.mean_ @ slopes + point.threshold
    unseen = graph.Sigmoid(graph.linear(inputs, slopes[:, None], np.array([bias])))
    seen = graph.Sub(1.0, unseen)
    graph.Squeeze(seen, [1], output="p_seen")
    described = graph.Div(graph.columns(scores, n_seen, n), experts.temperatures.unseen)
    flat = experts.temperatures.flat
    within = graph.Add(
        graph.Mul(graph.Softmax(described, axis=1), 1 - flat),
        graph.Mul(graph.Softmax(graph.Div(described, 2.0), axis=1), flat),
    )
    both = graph.Concat(
        graph.Mul(graph.Div(powers, graph.Cast(total, to=single)), seen), graph.Mul(within, unseen), axis=1
    )
    graph.Gather(both, experts.columns, axis=1, output="probabilities")
    labels = _label_values([plain_value(name) for name in experts.classes])[1]
    graph.Gather(labels, graph.ArgMax(both, axis=1, keepdims=0), output="label")


def _label_values(classes: list[Hashable]) -> tuple[bool, NDArray[Any]]:
    """Return whether labels are whole numbers, and the labels; others are texts."""
    whole = all(type(name) is int for name in classes)
    return whole, np.array(classes if whole else [str(name) for name in classes])


def _transformed(graph: _Graph, name: str) -> str:
    rows = "features"
    if name.endswith("roots"):
        rows = graph.Mul(graph.Sign(rows), graph.Sqrt(graph.Abs(rows)))
    return graph.unit(rows) if name.startswith("unit") else rows


def _logits(graph: _Graph, seen: Any, rows: str, n_classes: int) -> str:
    """Add the seen expert; see `cosmo.experts.pair.seen_logits`."""
    if not isinstance(seen, LogisticRegression):
        raise ValueError(f"the seen expert {type(seen).__name__} is not linear, so it cannot be exported")
    coef, intercept = seen.coef_, seen.intercept_
    if len(coef) < n_classes:  # Two classes share one row.
        coef, intercept = (np.concatenate([0 * part, part]) for part in (coef, intercept))
    logits: str = graph.linear(rows, coef.T, intercept)
    if isinstance(seen, SoftmaxRegression) and n_classes > 2:
        return logits
    return graph.Max(graph.LogSoftmax(logits, axis=1), np.log(_TINY))


def _scores(graph: _Graph, expert: UnseenExpert, rows: str, table: pd.DataFrame) -> str:
    """Add the unseen expert's scores of the classes of a table."""
    if isinstance(expert, EnsembleExpert):
        scores = [_scores(graph, part, rows, table) for part in expert.parts_]
        parts = zip(scores, expert.factors_, strict=True)
        return graph.Sum(*(graph.Mul(one, factor) for one, factor in parts))
    if isinstance(expert, SimilarityExpert):
        if expert.prompts == "best":
            raise ValueError("a SimilarityExpert with prompts='best' cannot be exported")
        cosines = graph.unit(graph.MatMul(graph.Sub(rows, expert.sample_mean_), expert.whitener_))
        return graph.MatMul(cosines, expert.targets(expert.attributes(table)).T)
    attributes = expert.attributes(table)
    weights = expert.class_weights(attributes)
    if weights is None:
        raise ValueError(f"the unseen expert {type(expert).__name__} is not linear, so it cannot be exported")
    return graph.linear(rows, weights, expert.class_biases(attributes))
