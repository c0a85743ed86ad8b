"""Model files that are damaged, altered, foreign, newer or malicious raise ModelError."""

import io
import json
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from compositional import Task
from sklearn.ensemble import RandomForestClassifier

from cosmo import ESZSL, Cosmo
from cosmo.io.model_file import ModelError, _read_arrays, _read_document, _write, load, read_card

FROZEN = Path(__file__).parent / "version_1.cosmo"


@pytest.fixture
def path(tmp_path):
    return Path(shutil.copy(FROZEN, tmp_path / "model.cosmo"))


@pytest.fixture(scope="module")
def whole():
    return FROZEN.read_bytes()


def check_rejected(path, content=None, match=None):
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelError, match=match) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")


def write_altered(path, change):
    """Write the file again with other content and the right checksums."""
    content = _read_document(path)
    arrays = _read_arrays(path, content)
    change(content, arrays)
    _write(path, content, arrays)


def nodes(tree):
    """Yield every JSON object of a document."""
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for item in tree:
            yield from nodes(item)


def of_class(content, name):
    """Return the document's part about the fitted object of a class."""
    return max(
        (node for node in nodes(content["root"]) if node.get("class") == name),
        key=lambda node: len(node["state"]),
    )


def test_any_flipped_bit_is_noticed(path, whole):
    rng = np.random.default_rng(0)
    header = 8 + int.from_bytes(whole[:8], "little")
    places = np.concatenate(
        [np.arange(64), rng.integers(64, 8 * header, 400), rng.integers(0, 8 * len(whole), 400)]
    )
    for place in places:
        content = bytearray(whole)
        content[place // 8] ^= 1 << (place % 8)
        check_rejected(path, bytes(content))


def test_any_truncation_is_noticed(path, whole):
    for length in [*range(0, 40), *np.linspace(40, len(whole) - 1, 200).astype(int)]:
        check_rejected(path, whole[:length])
    check_rejected(path, whole + b"\0", "not a model of cosmo, truncated or damaged")


def archive():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr("model.json", "{}")
    return content.getvalue()


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"\0" * 100, pickle.dumps({"a": 1}), pickle.dumps(np.arange(9)), archive(),
     b"PK\x03\x04" * 50, b"label,probability\na,0.5\n" * 9, bytes(range(256)) * 20,
     (2).to_bytes(8, "little") + b"{}", (2).to_bytes(8, "little") + b"[]",
     (10**6).to_bytes(8, "little") + b"[" * 10**6],
    ids=["empty", "json", "zeros", "pickle", "pickled array", "zip", "zip-like", "csv", "bytes", "no header",
         "list header", "nesting"],
)  # fmt: skip
def test_foreign_files(path, content):
    check_rejected(path, content, "not a model of cosmo")


@pytest.mark.parametrize("length", [2**60, 2**63 + 5, 10**9, 10**7])
def test_header_lengths_are_not_believed(path, whole, length):
    check_rejected(path, length.to_bytes(8, "little") + whole[8:], "truncated")


def test_a_missing_file_is_an_ordinary_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.cosmo")


def test_an_altered_document(path, whole):
    assert whole.count(b"adaptive") > 0
    check_rejected(path, whole.replace(b"adaptive", b"constant"), "damaged or altered: the document")
    with pytest.raises(ModelError, match="damaged or altered: the document"):
        read_card(path)


def test_a_newer_format(path):
    write_altered(path, lambda content, arrays: content.update(format_version=3, package="9.9"))
    check_rejected(path, match=r"format version 3, written by cosmo 9\.9.*pip install --upgrade")


@pytest.mark.parametrize("version", [0, "1", None, 1.5])
def test_no_format(path, version):
    write_altered(path, lambda content, arrays: content.update(format_version=version))
    check_rejected(path, match="no format version")


@pytest.mark.parametrize("types", [None, 3, [1], [["a"]]])
def test_types_that_are_no_names(path, types):
    write_altered(path, lambda content, arrays: content.update(types=types))
    check_rejected(path, match="the types to trust are not names")


@pytest.mark.parametrize(
    "name",
    ["os.system", "builtins:eval", "Popen", "../../evil.py", "/etc/passwd", "sklearn.svm.SVC", "", None, 3],
)
def test_unknown_classes(path, name):
    write_altered(path, lambda content, arrays: of_class(content, "ESZSL").update({"class": name}))
    check_rejected(path, match="names the class .* unknown; known are .*ESZSL")


@pytest.mark.parametrize(
    ("owner", "name"),
    [("ESZSL", "scores"), ("ESZSL", "__class__"), ("ESZSL", "_fit"), ("ESZSL", "grid"), ("Cosmo", "predict"),
     ("GatedMixture", "__dict__"), ("LogisticRegression", "predict_proba"), ("ExpertPair", "outputs"),
     ("OperatingPoint", "count"), ("ESZSL", "weights-")],
)  # fmt: skip
def test_attributes_cannot_hide_methods(path, owner, name):
    write_altered(path, lambda content, arrays: of_class(content, owner)["state"].update({name: 1}))
    check_rejected(path, match=f"cannot have an attribute '{name}'|unexpected keyword argument '{name}'")


@pytest.mark.parametrize(
    ("owner", "name"),
    [("ESZSL", "weights_"), ("ESZSL", "decided_"), ("Cosmo", "experts_"),
     ("Cosmo", "combination_"), ("Cosmo", "validation_outputs_"), ("Cosmo", "n_features_in_"),
     ("LogisticRegression", "coef_"), ("ExpertPair", "seen_classes"), ("OperatingPoint", "threshold"),
     ("RecordedOutputs", "gate_score"), ("Model", "cosmo"), ("ConfidenceGate", "weights_")],
)  # fmt: skip
def test_missing_attributes(path, owner, name):
    def drop(content, arrays):
        holders = [node for node in nodes(content["root"]) if name in node.get("state", ())]
        holders = [node for node in holders if node["class"] == owner]
        assert holders
        for node in holders:
            del node["state"][name]

    write_altered(path, drop)
    check_rejected(path)


def arrays_of(content):
    return {node["name"] for node in nodes(content["root"]) if node.get("is") == "array"}


@pytest.mark.parametrize("change", ["shape", "dtype", "missing", "size"])
def test_wrong_arrays(path, whole, change):
    for name in sorted(arrays_of(_read_document(FROZEN))):

        def spoil(content, arrays, name=name):
            values = arrays[name]
            if change == "missing":
                del arrays[name]
            elif change == "shape":
                arrays[name] = values.reshape(-1, 1) if values.ndim == 1 else values.reshape(-1)
            elif change == "size":
                arrays[name] = np.concatenate([values, values])
            else:
                arrays[name] = (values.reshape(-1).view(np.uint8)).reshape(len(values), -1)

        path.write_bytes(whole)
        write_altered(path, spoil)
        check_rejected(path)


def test_arrays_that_the_header_describes_otherwise(path, whole):
    header = 8 + int.from_bytes(whole[:8], "little")
    for one, other in ((b'"F32"', b'"I32"'), (b'"F64"', b'"I64"')):
        changed = whole[:header].replace(one, other) + whole[header:]
        assert changed != whole
        check_rejected(path, changed, "array .* is not the one that was written")


@pytest.mark.parametrize(
    "node",
    [{"is": "call", "of": "os.system"}, {"is": None}, {}, {"is": "array", "name": "../../etc/passwd"},
     {"is": "float", "value": "__import__('os')"}, {"is": "scalar", "dtype": "object", "value": 1},
     {"is": "index", "values": [1], "dtype": "category"}, {"is": "dict", "items": [[[], 1]]},
     {"is": "object", "class": "OdinGate", "state": []}, {"is": "object"}, {"is": "tuple"},
     {"is": "objects", "items": ["a"], "shape": [2**40], "dtype": "object"},
     {"is": "objects", "items": [1], "shape": [1], "dtype": "U9"}],
    ids=json.dumps,
)  # fmt: skip
def test_values_that_make_no_sense(path, node):
    write_altered(path, lambda content, arrays: of_class(content, "ESZSL")["state"].update(weights_=node))
    check_rejected(path)


def test_a_model_of_the_wrong_kind(path):
    write_altered(path, lambda content, arrays: content.update(root=of_class(content, "ESZSL")))
    check_rejected(path, match="holds a Cosmo or a Model, not a ESZSL")


@pytest.mark.parametrize("number", [2**50, "ESZSL"])
def test_absurd_numbers_of_features(path, number):
    def claim(content, arrays):
        value = of_class(content, number) if isinstance(number, str) else number
        of_class(content, "Cosmo")["state"]["n_features_in_"] = value
        of_class(content, "Model")["state"]["rehearsal"] = None

    write_altered(path, claim)
    check_rejected(path, match="more features than its arrays")


def test_deep_nesting(path):
    def nest(content, arrays):
        tree = 1
        for _ in range(300):
            tree = [tree]
        of_class(content, "ESZSL")["state"]["weights_"] = tree

    write_altered(path, nest)
    check_rejected(path, match="nested too deeply")


def test_other_predictions_than_when_saved(path):
    def negate(content, arrays):
        fitted = next(
            node["state"]["coef_"] for node in nodes(content["root"]) if "coef_" in node.get("state", ())
        )
        arrays[fitted["name"]] *= -1

    write_altered(path, negate)
    check_rejected(path, match="does not predict what it did when it was saved")


@pytest.fixture(scope="module")
def forest(tmp_path_factory):
    """A file with a forest, an archive of skops."""
    pytest.importorskip("skops")
    task, path = Task(rows=4), tmp_path_factory.mktemp("forest") / "model.cosmo"
    seen = RandomForestClassifier(2, random_state=0)
    Cosmo(task.table, seen=seen, unseen=ESZSL(1.0, 1.0)).fit(task.X, task.y).save(path)
    return path


def rezipped(arrays, compression=zipfile.ZIP_STORED, change=lambda schema: schema):
    """Replace archives by others of the same members."""
    for name, values in arrays.items():
        if values.dtype == np.uint8 and values[:2].tobytes() == b"PK":
            written = io.BytesIO()
            with (
                zipfile.ZipFile(io.BytesIO(values.tobytes())) as old,
                zipfile.ZipFile(written, "w", compression) as new,
            ):
                for member in old.namelist():
                    content = old.read(member)
                    new.writestr(member, change(content) if member == "schema.json" else content)
            arrays[name] = np.frombuffer(written.getvalue(), np.uint8)


CALL = {
    "__class__": "system", "__module__": "os", "__loader__": "FunctionNode", "__id__": 1,
    "protocol": 2, "_skops_version": "0.13",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content, arrays: content.update(types=[]), r"has objects of sklearn\.tree\._tree\.Tree"),
        (lambda content, arrays: content.pop("types"), r"has objects of sklearn\.tree\._tree\.Tree"),
        (
            lambda content, arrays: rezipped(arrays, change=lambda schema: json.dumps(CALL).encode()),
            r"has objects of (os|posix)\.system",
        ),
        (lambda content, arrays: rezipped(arrays, change=lambda schema: schema[:-9]), "damaged or altered"),
        (lambda content, arrays: rezipped(arrays, change=lambda schema: b"[" * 10**5), "damaged or altered"),
        (lambda content, arrays: rezipped(arrays, zipfile.ZIP_DEFLATED), "is compressed"),
    ],
    ids=["unlisted", "no list", "function", "json", "nesting", "compressed"],
)
def test_altered_archives(forest, tmp_path, change, message):
    path = Path(shutil.copy(forest, tmp_path / "model.cosmo"))

    write_altered(path, change)
    with pytest.raises(ModelError, match=message) as caught:
        load(path, trusted=[] if "Tree" in message else ["sklearn.tree._tree.Tree"])
    assert str(caught.value).startswith(f"{path}: ")
