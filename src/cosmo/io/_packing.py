"""Conversion of models to a JSON tree with arrays beside it, and back.

Classes in `classes.json` are built from plain values; skops stores objects of others. The key there is the
name of the class in files, which never changes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from importlib import import_module, resources
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from cosmo._core import require
from cosmo._core.files import digest
from cosmo.io import _foreign
from cosmo.io._foreign import ModelError

DTYPES = frozenset(["bool", *(f"float{bits}" for bits in (16, 32, 64)),
                    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))])  # fmt: skip
Node = Any
State = dict[str, Any]
Arrays = dict[str, NDArray[Any]]
_FOLDERS = frozenset({"cache", "checkpoints", "memory"})  # parameters that name folders of one machine
_MAX_DEPTH = 60


@dataclass(frozen=True)
class Known:
    """Class that can be stored.

    An estimator is built from its parameters, and gets its learned attributes: names that end in an
    underscore, and those in `also`.
    """

    path: str
    leave_out: Sequence[str] = ()  # learned attributes that prediction does not need
    also: Sequence[str] = ()  # learned attributes without an underscore at the end
    pack: Callable[[Any], State] = vars  # returns the state of an object
    restore: Callable[[Any], None] = lambda value: None  # completes an object that was built from a file
    file_names: Mapping[str, str] = field(default_factory=dict)  # of fields that were renamed since

    def load(self) -> type[Any]:
        """Import the class."""
        module, _, name = self.path.rpartition(".")
        return getattr(import_module(module), name)

    def is_learned(self, attribute: str) -> bool:
        """Return whether an attribute of an estimator is learned."""
        return (attribute.endswith("_") and not attribute.startswith("_")) or attribute in self.also

    def stores(self, attribute: str) -> bool:
        """Return whether an attribute of an estimator is stored."""
        parameter = attribute in self.load()._get_param_names()
        return attribute not in self.leave_out and (parameter or self.is_learned(attribute))


def _cosmo_state(model: Any) -> State:
    state = dict(vars(model))
    # The experts have the current table; the hold-out is of no use without the training rows.
    state |= {"descriptions": None, "hold_out": None}
    # Parameters of the constructor may have been fitted before.
    state |= {
        part: clone(state[part])
        for part in ("seen", "unseen", "gate")
        if isinstance(state[part], BaseEstimator)
    }
    state["validation_outputs_"] = model.combination_.summary(model.validation_outputs_)
    return state


def _restore_cosmo(model: Any) -> None:
    experts = model.experts_
    if not np.array_equal(experts.seen.classes_, np.arange(experts.n_trained)):
        raise ValueError("the seen expert's labels are not the positions of the seen classes")
    model.descriptions = experts.descriptions
    vars(model).setdefault("choice_", None)  # of older files
    calibrated = model.combination_.gate_.log_odds
    if calibrated != (experts.temperatures is not None):
        raise ValueError("a calibrated gate needs experts with temperatures, and they need such a gate")
    if not calibrated:  # Format 1 has no method.
        model.method = "paper"


def _generator_state(expert: Any) -> State:
    # Synthesis uses the running mean of the generator's weights only.
    state = dict(vars(expert))
    if "weights_" in state:
        state["weights_"] = {k: value for k, value in expert.weights_.items() if k.startswith("mean ")}
    return state


def _neighbours_state(classifier: Any) -> State:
    state: State = classifier.get_params(deep=False)
    if hasattr(classifier, "classes_"):
        state |= {"rows_": classifier._fit_X, "labels_": classifier.classes_[classifier._y]}
    return state


def _restore_neighbours(classifier: Any) -> None:
    # The search tree is not made of plain arrays, so it is built again.
    learned = vars(classifier)
    if "rows_" in learned:
        classifier.fit(learned.pop("rows_"), learned.pop("labels_"))


_GENERATOR = {"leave_out": ("seen_classifier_", "regressor_"), "pack": _generator_state}
_EXCEPTIONS: dict[str, dict[str, Any]] = {
    "Model": {"file_names": {"exemplars": "rehearsal"}},
    "Rehearsal": {"file_names": {"per_class": "most"}},
    "Cosmo": {"pack": _cosmo_state, "restore": _restore_cosmo},
    **dict.fromkeys(("FCLSWGAN", "CycleWGAN", "CycleUWGAN", "SEGZSL"), _GENERATOR),
    "SoftmaxRegression": {"leave_out": ("n_iter_", "gap_")},
    "LogisticRegression": {"leave_out": ("n_iter_",)},
    "LogisticRegressionCV": {"leave_out": ("scores_", "coefs_paths_", "l1_ratio_", "l1_ratios_", "n_iter_")},
    "LinearDiscriminantAnalysis": {"leave_out": ("covariance_",), "also": ("_max_components",)},
    "QuadraticDiscriminantAnalysis": {"leave_out": ("covariance_",)},
    "DummyClassifier": {"also": ("_strategy",)},
    "MLPClassifier": {"leave_out": ("loss_curve_",), "also": ("_label_binarizer",)},
    "KNeighborsClassifier": {"pack": _neighbours_state, "restore": _restore_neighbours},
}
_PATHS: dict[str, str] = json.loads(resources.files("cosmo.io").joinpath("classes.json").read_text())
KNOWN = {name: Known(path, **_EXCEPTIONS.get(name, {})) for name, path in _PATHS.items()}


def known_name(kind: type[Any]) -> str | None:
    """Return the name that files use for a class, or None."""
    for name, known in KNOWN.items():
        if known.path.endswith(f".{kind.__name__}") and known.load() is kind:
            return name
    return None


def pack(value: Any, name: str, types: set[str] | None = None) -> tuple[Node, Arrays]:
    """Return a value as a JSON tree, and the arrays that it refers to by name.

    Types that must be trusted to load it are added to `types`.
    """
    packer = _Packer(set() if types is None else types)
    return packer.node(value, name), packer.arrays


def unpack(node: Node, arrays: Arrays, trusted: Iterable[str] = ()) -> Any:
    """Return the value of a JSON tree; only classes of the registry are built, and trusted types."""
    try:
        return _Unpacker(arrays, trusted).value(node, 0)
    except ModelError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
        raise ModelError(f"damaged or altered: {type(error).__name__}: {error}") from error


class _Packer:
    def __init__(self, types: set[str]) -> None:
        self.arrays: Arrays = {}
        self.types = types
        self._names: dict[tuple[str, tuple[int, ...], str], str] = {}

    def node(self, value: Any, path: str) -> Node:
        """Return the tree of a value; `path` is its place in the model."""
        if isinstance(value, np.generic):
            return self._scalar(value, path)
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"is": "float", "value": repr(value)}
        if isinstance(value, np.ndarray):
            return self._array(value, path)
        if isinstance(value, pd.MultiIndex):
            levels = [value.get_level_values(i) for i in range(value.nlevels)]
            return {"is": "multiindex", "levels": [self.node(level, path) for level in levels]}
        if isinstance(value, pd.Index):
            return self._index(value, path)
        if isinstance(value, pd.DataFrame):
            parts = {"index": value.index, "columns": value.columns, "values": value.to_numpy()}
            return {"is": "frame", **{name: self.node(part, path) for name, part in parts.items()}}
        name = known_name(type(value))
        if name is not None:
            return {"is": "object", "class": name, "state": self._state(value, KNOWN[name], path)}
        if type(value) in (list, tuple):
            items = [self.node(item, f"{path}.{i}") for i, item in enumerate(value)]
            return items if type(value) is list else {"is": "tuple", "items": items}
        if type(value) is dict:
            pairs = [[self.node(key, path), self.node(item, f"{path}.{key}")] for key, item in value.items()]
            return {"is": "dict", "items": pairs}
        if type(value).__module__ == "torch":
            return {"is": "tensor", "values": self._array(value.detach().numpy(), path)}
        archive, types = _foreign.dump(value, path)
        self.types.update(types)
        return {"is": "skops", "archive": self._array(np.frombuffer(archive, dtype=np.uint8), path)}

    def _scalar(self, value: np.generic, path: str) -> Node:
        if isinstance(value, np.str_):
            return str(value)
        if value.dtype.name not in DTYPES:
            raise ModelError(f"{path} has the type {value.dtype}, which a model file cannot hold")
        return {"is": "scalar", "dtype": value.dtype.name, "value": self.node(value.item(), path)}

    def _array(self, values: NDArray[Any], path: str) -> Node:
        if values.dtype.kind in "OU":
            items = [self.node(item, path) for item in values.reshape(-1).tolist()]
            dtype = "object" if values.dtype.kind == "O" else f"U{values.dtype.itemsize // 4}"
            return {"is": "objects", "items": items, "shape": list(values.shape), "dtype": dtype}
        if values.dtype.name not in DTYPES:
            raise ModelError(f"{path} is an array of {values.dtype}, which a model file cannot hold")
        # The memory layout is stored, because the rounding of matrix products depends on it.
        fortran = values.flags.f_contiguous and not values.flags.c_contiguous
        rows = values.T if fortran else values
        stored = np.ascontiguousarray(rows, values.dtype.newbyteorder("=")).reshape(rows.shape)
        # Equal arrays are stored once.
        key = (stored.dtype.name, stored.shape, digest(stored))
        name = self._names.setdefault(key, path if path not in self.arrays else f"{path}.{len(self.arrays)}")
        self.arrays[name] = stored
        return {"is": "array", "name": name, **({"order": "F"} if fortran else {})}

    def _index(self, index: pd.Index, path: str) -> Node:
        dtype = index.dtype.name
        if not (isinstance(index.dtype, np.dtype) or dtype == "str"):
            raise ModelError(f"{path} has labels of type {dtype}; use numbers or text")
        values = index.to_numpy(dtype=object) if dtype == "str" else index.to_numpy()
        node = {"is": "index", "values": self._array(values, path), "dtype": dtype}
        return {**node, "name": self.node(index.name, path)} if index.name is not None else node

    def _state(self, value: Any, known: Known, path: str) -> dict[str, Node]:
        if isinstance(value, BaseEstimator):  # some are dataclasses, too
            state = {name: item for name, item in known.pack(value).items() if known.stores(name)}
        elif is_dataclass(value):
            state = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        elif isinstance(value, tuple):
            state = value._asdict()  # type: ignore[attr-defined]
        else:
            state = known.pack(value)
        return {
            known.file_names.get(name, name): self.node(None if name in _FOLDERS else item, f"{path}.{name}")
            for name, item in state.items()
        }


class _Unpacker:
    def __init__(self, arrays: Arrays, trusted: Iterable[str]) -> None:
        self.arrays = arrays
        self.kinds: dict[str, Callable[[Any, int], Any]] = {
            "float": self._float,
            "scalar": self._scalar,
            "array": self._array,
            "objects": self._objects,
            "tensor": lambda node, depth: require("torch").from_numpy(self.value(node["values"], depth)),
            "index": self._index,
            "multiindex": lambda node, depth: pd.MultiIndex.from_arrays(
                [self.value(level, depth) for level in node["levels"]]
            ),
            "frame": lambda node, depth: pd.DataFrame(
                *(self.value(node[part], depth) for part in ("values", "index", "columns"))
            ),
            "tuple": lambda node, depth: tuple(self.value(item, depth) for item in node["items"]),
            "dict": lambda node, depth: {
                self.value(key, depth): self.value(item, depth) for key, item in node["items"]
            },
            "object": self._object,
            "skops": lambda node, depth: _foreign.load(self.value(node["archive"], depth).tobytes(), trusted),
        }

    def value(self, node: Node, depth: int) -> Any:
        """Return the value of a tree that is nested this deep in the document."""
        if depth > _MAX_DEPTH:
            raise ModelError("damaged or altered: the document is nested too deeply")
        if isinstance(node, list):
            return [self.value(item, depth + 1) for item in node]
        if not isinstance(node, dict):
            return node
        kind = node.get("is")
        if kind not in self.kinds:
            raise ModelError(f"damaged or altered: there is no kind of value named {kind!r}")
        return self.kinds[kind](node, depth + 1)

    def _float(self, node: Node, depth: int) -> float:
        if node["value"] not in ("nan", "inf", "-inf"):
            raise ModelError(f"damaged or altered: {node['value']!r} is not a special number")
        return float(node["value"])

    def _scalar(self, node: Node, depth: int) -> Any:
        if node["dtype"] not in DTYPES:
            raise ModelError(f"damaged or altered: {node['dtype']!r} is not a type of numbers")
        return np.dtype(node["dtype"]).type(self.value(node["value"], depth))

    def _array(self, node: Node, depth: int) -> NDArray[Any]:
        if node["name"] not in self.arrays:
            raise ModelError(f"damaged or altered: the array {node['name']!r} is missing")
        values = self.arrays[node["name"]]
        return values.T if node.get("order") == "F" else values

    def _objects(self, node: Node, depth: int) -> NDArray[Any]:
        items = np.empty(len(node["items"]), dtype=object)
        for i, item in enumerate(node["items"]):
            items[i] = self.value(item, depth)
        if node["dtype"] != "object":
            if not all(isinstance(item, str) for item in items):
                raise ModelError("damaged or altered: an array of text holds something else")
            items = items.astype(str)
        return items.reshape(node["shape"])

    def _index(self, node: Node, depth: int) -> pd.Index:
        values, dtype = self.value(node["values"], depth), node["dtype"]
        if dtype not in ("str", "object") and dtype not in DTYPES:
            raise ModelError(f"damaged or altered: labels of type {dtype!r}")
        name = self.value(node.get("name"), depth)
        return pd.Index(
            list(values) if dtype == "str" else values, dtype=dtype, name=name, tupleize_cols=False
        )

    def _object(self, node: Node, depth: int) -> Any:
        name = node["class"]
        if name not in KNOWN:
            raise ModelError(f"names the class {name!r}, which is unknown; known are {', '.join(KNOWN)}")
        known = KNOWN[name]
        kind = known.load()
        names = {old: new for new, old in known.file_names.items()}
        state = {names.get(key, key): self.value(item, depth) for key, item in node["state"].items()}
        if issubclass(kind, BaseEstimator):
            parameters = {key: state.pop(key) for key in kind._get_param_names() if key in state}
            result = kind(**parameters)
            _set_attributes(result, state, known.is_learned)
        elif is_dataclass(kind) or issubclass(kind, tuple):
            result = kind(**state)
        else:
            result = object.__new__(kind)
            _set_attributes(result, state, lambda key: not key.startswith("_"))
        known.restore(result)
        return result


def _set_attributes(target: Any, state: dict[str, Any], allowed: Callable[[str], bool]) -> None:
    """Set attributes of an object; none may replace an attribute of its class."""
    kind = type(target)
    for name, value in state.items():
        if not name.isidentifier() or not allowed(name) or hasattr(kind, name):
            raise ModelError(f"damaged or altered: {kind.__name__} cannot have an attribute {name!r}")
        vars(target)[name] = value
