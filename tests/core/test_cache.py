"""Fingerprints of values and code, and the cache on disk."""

import inspect
import itertools
import os
import subprocess
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from cosmo._core.cache import Cache, _code_of, _syntax, fingerprint
from cosmo.data.splits import HoldOut
from cosmo.experts import ESZSL, LAGO, SJE

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass
class Pair:
    left: Any
    right: Any


class Own(BaseEstimator):
    """An estimator of a user."""

    def __init__(self, value=None):
        self.value = value


def table(**changes):
    columns = pd.MultiIndex.from_tuples([("a", "x"), ("a", "y"), ("b", "x")])
    options = {"index": ["cat", "dog"], "columns": columns} | changes
    return pd.DataFrame(np.arange(6, dtype=np.float32).reshape(2, 3), **options)


class TestEqualValues:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(2, 3))),
            (np.arange(3), np.arange(6)[::2] // 2),
            ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
            ({"a": {"c": [1], "d": None}}, {"a": {"d": None, "c": [1]}}),
            (table(), table().copy()),
            (table(), table().sort_index(ascending=False).sort_index()),
            (pd.Index(["a", "b"]), pd.Index(["a", "b"], dtype=object)),
            (ESZSL(gamma=1.0), clone(ESZSL(gamma=1.0))),
            (ESZSL(), ESZSL(gamma=None)),
            (make_pipeline(StandardScaler(), LogisticRegression()),) * 2,
            (HoldOut([0, 1], [2], [3]), HoldOut(np.array([0, 1]), np.array([2]), np.array([3]))),
            (Pair(1, [2]), Pair(1, [2])),
            (float("nan"), -float("nan")),
            (Path("a") / "b", Path("a/b")),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_have_one_name(self, one, other):
        assert fingerprint(one) == fingerprint(other)

    def test_fitting_an_estimator_does_not_matter(self):
        model = LogisticRegression()
        before = fingerprint(model)
        model.fit([[0.0], [1.0]], [0, 1])
        assert fingerprint(model) == before

    def test_in_another_process(self):
        imports = "import cosmo.cli.compare, cosmo.cli.run, cosmo.viz.page, cosmo.viz.plots, cosmo"
        values = """
import numpy as np, pandas as pd
from cosmo.experts import ESZSL, SJE, LAGO, DEM, make_seen_expert
values = [
    ESZSL(gamma=1.0), SJE(), LAGO("k-soft"), DEM(), make_seen_expert("lda"),
    {"b": 1, "a": {"z": "x", "y": 2.5}}, pd.DataFrame({"p": [1.0], "q": [2]}, index=["cat"]), np.eye(2),
]
"""
        code = "from cosmo._core.cache import fingerprint as f\nprint(*map(f, values))"
        script = f"{imports}\n{values}\n{code}"
        environment = {**ENVIRONMENT, "PYTHONHASHSEED": "123"}
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True
        )
        scope = {}
        exec(values, scope)
        assert done.stdout.split() == [fingerprint(value) for value in scope["values"]]


class TestDifferentValues:
    def test_have_different_names(self):
        array = np.arange(6, dtype=np.float32)
        values = [
            *(None, "None", "", 0, 0.0, False, 1, 1.0, True, "1", -0.0, 1 + 1e-15),
            *(np.int64(1), np.int32(1), np.float32(1), np.float64(1), np.bool_(True), np.str_("1")),
            *([], (), {}, [1], (1,), [[1]], [1, 2], [2, 1], [[1, 2]], [[1], 2], [1, [2]], [None], [[]]),
            *({"a": 1}, {"a": 2}, {"b": 1}, {"a": "1"}, {1: "a"}, [("a", 1)], {"a": {}}, {"a": []}),
            *(array, array[::-1], array.reshape(2, 3), array.reshape(3, 2), array.astype(np.float64)),
            *(array.astype(np.int32), array.view(np.int32), array.astype(object), list(array), array[:0]),
            *(array.tobytes(), np.float32(0), np.array(0, np.float32), np.array([0], np.float32)),
            *(np.zeros((0, 2)), np.zeros((2, 0)), np.array(["a"]), np.array(["a"], dtype=object)),
            *(pd.Index([0, 1]), pd.Index([1, 0]), pd.Index(["0", "1"]), [0, 1], np.array([0, 1])),
            *(Path("a"), "a", Pair(1, 2), Pair(2, 1), (1, 2), Pair(Pair(1, 2), 3), Pair(1, Pair(2, 3))),
        ]
        names = [fingerprint(value) for value in values]
        same = [
            (one, other)
            for (one, a), (other, b) in itertools.combinations(zip(values, names, strict=True), 2)
            if a == b
        ]
        assert same == []

    @pytest.mark.parametrize(
        "other",
        [
            table() + 1,
            table().iloc[::-1],
            table().iloc[:, ::-1],
            table(index=["dog", "cat"]),
            table(columns=["ax", "ay", "bx"]),
            table(columns=pd.MultiIndex.from_tuples([("a", "x"), ("b", "y"), ("b", "x")])),
            table().astype(np.float64),
            table().T,
        ],
    )
    def test_every_part_of_a_table_counts(self, other):
        assert fingerprint(table()) != fingerprint(other)

    def test_parameters_of_an_estimator_count(self):
        models = [
            *(ESZSL(), ESZSL(gamma=1.0), ESZSL(lam=1.0), ESZSL(gamma=1), ESZSL(centre=False)),
            *(
                SJE(),
                SJE(seed=1),
                LAGO(),
                LAGO("singletons"),
                LogisticRegression(),
                LogisticRegression(C=2.0),
            ),
            make_pipeline(LogisticRegression()),
            make_pipeline(LogisticRegression(C=2.0)),
            make_pipeline(StandardScaler(), LogisticRegression()),
            *(Own(), Own(1), Own(ESZSL()), Own(ESZSL(gamma=1.0)), Own(Own())),
        ]
        assert len({fingerprint(model) for model in models}) == len(models)


@pytest.fixture
def edited(monkeypatch):
    """Return a function that makes a module's source look edited."""
    source = inspect.getsource

    def edit(name, addition):
        def changed(thing):
            module = thing.__name__ if isinstance(thing, types.ModuleType) else ""
            return source(thing) + (addition if module == name else "")

        monkeypatch.setattr(inspect, "getsource", changed)
        _code_of.cache_clear()
        _syntax.cache_clear()

    yield edit
    monkeypatch.undo()
    _code_of.cache_clear()
    _syntax.cache_clear()


class TestCode:
    @pytest.mark.parametrize(
        "module", ["cosmo.experts.ranking", "cosmo.experts._linear", "cosmo.experts.base"]
    )
    def test_behind_an_expert_counts(self, module, edited):
        before = fingerprint(SJE())
        edited(module, "\nx = 1\n")
        assert fingerprint(SJE()) != before

    @pytest.mark.parametrize("module", ["cosmo.experts.lago", "cosmo.cli.compare", "cosmo.viz.plots"])
    def test_of_others_does_not_count(self, module, edited):
        before = fingerprint(SJE())
        edited(module, "\nx = 1\n")
        assert fingerprint(SJE()) == before

    def test_of_a_user_counts(self, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(tmp_path)
        names = []
        for number in (1, 2):
            (tmp_path / f"mine{number}.py").write_text(
                "from cosmo.experts import SJE\n"
                f"class Mine(SJE):\n    grid = {{'epochs': ({number},), 'learning_rate': (1.0,)}}\n"
            )
            module = __import__(f"mine{number}")
            module.Mine.__module__ = "mine"  # the same class, before and after an edit
            monkeypatch.setitem(sys.modules, "mine", module)
            names.append(fingerprint(module.Mine()))
            monkeypatch.delitem(sys.modules, f"mine{number}")
        assert names[0] != names[1]


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        object(),
        len,
        lambda: 1,
        iter([1]),
        np.random.default_rng(0),
        [1, {2}],
        {"a": object()},
        np.array([object()]),
        FunctionTransformer(np.log),
        ESZSL,
        HoldOut,
        {1: "a", "b": 2},
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_what_has_no_fingerprint(value):
    with pytest.raises(TypeError):
        fingerprint(value)


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "deep" / "cache")


def never():
    raise AssertionError("computed again")


class TestArrays:
    def test_are_computed_once(self, cache):
        made = {
            "x": np.arange(6, dtype=np.float32).reshape(2, 3),
            "empty": np.zeros((0, 4), dtype=np.int8),
            "number": 1.5,
            "text": '{"a": "ä"}',
        }
        first = cache.arrays("kind", "key", lambda: made)
        again = Cache(cache.folder).arrays("kind", "key", never)
        assert list(again) == list(made)
        for found in (first, again):
            for name, value in made.items():
                np.testing.assert_array_equal(found[name], value)
                assert isinstance(found[name], np.ndarray)
                assert found[name].dtype == np.asarray(value).dtype
        again["x"][0, 0] = 9  # a copy of one's own
        assert cache.arrays("kind", "key", never)["x"][0, 0] == 0

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
    def test_a_failure_leaves_nothing(self, error, cache):
        def failing():
            raise error

        with pytest.raises(error):
            cache.arrays("kind", "key", failing)
        assert os.listdir(cache.folder) == []

    def test_any_changed_bit(self, cache, caplog):
        cache.arrays("kind", "key", lambda: {"x": np.arange(3), "names": np.array(["a", "bc"])})
        (path,) = cache.folder.iterdir()
        content = path.read_bytes()
        for bit in range(0, 8 * len(content), 61):
            changed = bytearray(content)
            changed[bit // 8] ^= 1 << bit % 8
            path.write_bytes(changed)
            assert [*cache.arrays("kind", "key", lambda: {"again": np.ones(1)})] == ["again"], bit
        messages = {record.getMessage() for record in caplog.records}
        assert messages == {f"{path} cannot be read (wrong checksum); computing it again"}

    def test_of_objects_are_refused(self, cache):
        with pytest.raises((TypeError, ValueError), match="[Oo]bject"):
            cache.arrays("kind", "key", lambda: {"x": np.array(["a", 1], dtype=object)})
        assert os.listdir(cache.folder) == []

    def test_nothing_in_a_file_is_executed(self, cache, tmp_path):
        class Trap:
            def __reduce__(self):
                return Path.touch, (tmp_path / "executed",)

        trap = np.array([Trap()], dtype=object)
        np.savez(cache.folder / "kind-key.npz", x=trap, allow_pickle=True)
        assert cache.arrays("kind", "key", lambda: {"x": np.ones(1)})["x"].tolist() == [1]
        assert not (tmp_path / "executed").exists()


class TestDocuments:
    def test_come_back(self, cache):
        entry = {"a": [1, 2.5, None, True, "ä"], "b": {"c": 0.1 + 0.2}, "tiny": 5e-324}
        cache.write("kind", "key", entry)
        assert Cache(cache.folder).read("kind", "key") == entry
        cache.write("kind", "key", {"a": 1})
        assert cache.read("kind", "key") == {"a": 1}

    @pytest.mark.parametrize("content", [b"", b"no archive", b'{"a": 1}'])
    def test_damaged(self, content, cache, caplog):
        cache.write("kind", "key", {"a": 1})
        (path,) = cache.folder.iterdir()
        path.write_bytes(content)
        assert cache.read("kind", "key") == {}
        assert str(path) in caplog.text
