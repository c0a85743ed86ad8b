"""Readers of files and commands of the command line, as functions of the small problem."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from entry import ASKED, FITTED, LABELLED, Entry, clean, dataset, fitted_model, joined, queries, told
from problem import Problem

from cosmo import Model
from cosmo.data import (
    read_descriptions,
    read_features,
    read_plain,
    read_predictions,
    read_xlsa17,
    write_plain,
    write_xlsa17,
)

__all__ = ["FILE_ENTRIES", "Refused"]

ESZSL = "eszsl:gamma=1,lam=1"


def model_file(p: Problem) -> Path:
    """Return the path of a new copy of a fitted model."""
    path = p.folder / "model.cosmo"
    path.write_bytes(_saved_model())
    return path


@cache
def _saved_model() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        fitted_model().save(Path(folder, "model.cosmo"))
        return Path(folder, "model.cosmo").read_bytes()


def samples_csv(p: Problem, name: str = "X", labels: str | None = "y") -> Path:
    """Write samples as a table."""
    frame = pd.DataFrame(np.asarray(getattr(p, name)))
    frame.columns = [f"f{i}" for i in range(frame.shape[1])]
    if labels is not None:
        frame.insert(0, "label", pd.Series(np.asarray(getattr(p, labels)), dtype=object))
    path = p.folder / f"{name}.csv"
    frame.to_csv(path, index=False)
    return path


def descriptions_csv(p: Problem, name: str = "table") -> Path:
    """Write descriptions as a table."""
    frame = pd.DataFrame(getattr(p, name)).copy()
    if frame.columns.nlevels == 2:
        frame.columns = pd.Index(
            [f"{group}::{attribute}" for group, attribute in frame.columns], dtype=object
        )
    frame.index.name = "class"
    path = p.folder / f"{name}.csv"
    frame.to_csv(path)
    return path


def _npz(p: Problem) -> Any:
    path = p.folder / "samples.npz"
    np.savez(path, X=p.X, y=np.asarray(p.y).astype(str))
    return read_features(path)


def _npy(p: Problem) -> Any:
    np.save(p.folder / "samples.npy", p.X)
    (p.folder / "labels.txt").write_text("\n".join(map(str, p.y)))
    return read_features(p.folder / "samples.npy", labels=p.folder / "labels.txt")


def _plain(p: Problem) -> Any:
    write_plain(dataset(clean()), p.folder)
    np.savez(p.folder / "features.npz", X=joined(p.X, p.X_new), y=joined(p.y, p.y_new).astype(str))
    descriptions_csv(p).rename(p.folder / "descriptions.csv")
    lines = [
        (part, row) for part in ("trainval", "test_seen", "test_unseen") for row in getattr(p.split, part)
    ]
    pd.DataFrame(lines, columns=["part", "row"]).to_csv(p.folder / "split.csv", index=False)
    return told(read_plain(p.folder))


def _xlsa17_folder(p: Problem) -> Path:
    """Write the samples of the training and others as a benchmark folder."""
    from scipy.io import savemat

    write_xlsa17(dataset(clean()), p.folder)
    names = [*map(str, p.table.index)]
    labels = [names.index(str(one)) + 1 if str(one) in names else 99 for one in joined(p.y, p.y_new)]
    savemat(
        p.folder / "res101.mat",
        {"features": joined(p.X, p.X_new).T, "labels": np.array(labels, dtype=float)[:, None]},
    )
    parts = {
        f"{part}_loc": getattr(p.split, part)[:, None] + 1.0
        for part in ("trainval", "test_seen", "test_unseen")
    }
    cells = np.empty((len(names), 1), dtype=object)
    cells[:, 0] = names
    savemat(p.folder / "att_splits.mat", {"att": p.table.to_numpy().T, "allclasses_names": cells, **parts})
    return p.folder


def _stage(p: Problem) -> Any:
    joint, n = p.joint, len(p.target)
    if joint.ndim == 2 and joint.dtype.kind == "f":  # the first column is a dummy
        joint = np.pad(joint, ((0, 0), (1, 0)))
    np.savez(p.folder / "pred_gzsl_test.npz", pred_test=joint)
    np.savez(
        p.folder / "rows_test.npz",
        rows=np.arange(1, n + 1),
        y=p.target + 1,
        seen_classes=np.arange(1, 7),
        unseen_classes=np.arange(7, 10),
    )
    return read_predictions(p.folder, "test").proba


def _verb(name: str, *arguments: str) -> str:
    """Run a command of the command line and return what it prints."""
    command = import_module(f"cosmo.cli.{name}")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        status = command.run(command.parser().parse_args([*map(str, arguments)]))
    if status:
        raise Refused(printed.getvalue())
    return printed.getvalue()


class Refused(Exception):
    """A command said no, in words, without an error."""


def _fit_verb(p: Problem) -> Any:
    out = p.folder / "own.cosmo"
    _verb(
        "fit", samples_csv(p), "--descriptions", descriptions_csv(p), "--unseen", ESZSL,
        "--cache", p.folder / "cache", "--out", out, "-q",
    )  # fmt: skip
    return Model.load(out).cosmo.predict_proba(queries(p))


def _check_verb(p: Problem) -> Any:
    return _verb("check", samples_csv(p), "--descriptions", descriptions_csv(p), "-q")


def _predict_verb(p: Problem) -> Any:
    out = p.folder / "answers.csv"
    _verb("predict", model_file(p), samples_csv(p, "X_new", None), "--out", out, "-q")
    return pd.read_csv(out)


def _explain_verb(p: Problem) -> Any:
    return _verb("explain", model_file(p), samples_csv(p, "X_new", None), "-q")


def _evaluate_verb(p: Problem) -> Any:
    return _verb("evaluate", model_file(p), samples_csv(p, "X_new", "y_new"), "--json", "-q")


def _add_verb(p: Problem) -> Any:
    path = model_file(p)
    _verb("classes", "add", path, "--descriptions", descriptions_csv(p, "new"), "-q")
    return Model.load(path).cosmo.predict_proba(clean().X_new)


def _promote_verb(p: Problem) -> Any:
    path = model_file(p)
    _verb("classes", "promote", path, samples_csv(p, "X_new", None), "--class", "gnu", "-q")
    return Model.load(path).cosmo.predict_proba(clean().X_new)


def _run_verb(p: Problem) -> Any:
    folder = _xlsa17_folder(p)
    printed = _verb("run", folder, "--unseen", ESZSL, "--out", folder / "out", "--json", "-q")
    results = json.loads(printed)["results"]
    return np.array([[row[name] for name in ("acc_ts", "acc_tr", "acc_h", "ausuc")] for row in results])


def _compare_verb(p: Problem) -> Any:
    folder = _xlsa17_folder(p)
    _verb(
        "compare", folder, "--methods", ESZSL, "--jobs", "1", "--cache", folder / "cache",
        "--out", folder / "out", "-q",
    )  # fmt: skip
    return _percentages(folder / "out" / "compare.csv", ["t1", "acc_ts", "acc_tr", "acc_h", "ausuc"])


def _gates_verb(p: Problem) -> Any:
    folder = _xlsa17_folder(p)
    _verb(
        "gates", folder, "--unseen", ESZSL, "--gates", "confidence", "--folds", "1",
        "--cache", folder / "cache", "--out", folder / "out", "-q",
    )  # fmt: skip
    return _percentages(folder / "out" / "gates.csv", ["auc", "acc_h", "test_auc", "test_acc_h"])


def _percentages(path: Path, columns: list[str]) -> Any:
    return pd.read_csv(path)[columns].to_numpy() / 100


def _operate_verb(option: str) -> Callable[[Problem], Any]:
    def run(p: Problem) -> Any:
        path = model_file(p)
        _verb("operate", path, f"{option}={p.number}", "-q")
        return Model.load(path).cosmo.predict_proba(clean().X_new)

    return run


FILE_ENTRIES: dict[str, Entry] = {
    "read_features(csv)": Entry(lambda p: read_features(samples_csv(p)), {"features": "X", "labels": "y"}),
    "read_features(npz)": Entry(_npz, {"features": "X", "labels": "y"}),
    "read_features(npy)": Entry(_npy, {"features": "X", "labels": "y"}),
    "read_descriptions": Entry(lambda p: read_descriptions(descriptions_csv(p)), {"descriptions": "table"}),
    "read_plain": Entry(_plain, FITTED),
    "read_xlsa17": Entry(lambda p: told(read_xlsa17(_xlsa17_folder(p))), FITTED),
    "read_predictions": Entry(_stage, {"probabilities": "joint"}),
    "cosmo run": Entry(_run_verb, FITTED),
    "cosmo compare": Entry(_compare_verb, FITTED),
    "cosmo gates": Entry(_gates_verb, FITTED),
    "cosmo check": Entry(_check_verb, FITTED),
    "cosmo fit": Entry(_fit_verb, FITTED),
    "cosmo predict": Entry(_predict_verb, ASKED),
    "cosmo explain": Entry(_explain_verb, ASKED),
    "cosmo evaluate": Entry(_evaluate_verb, LABELLED),
    "cosmo classes add": Entry(_add_verb, {"descriptions": "new"}),
    "cosmo classes promote": Entry(_promote_verb, ASKED),
    "cosmo operate --threshold": Entry(_operate_verb("--threshold"), {"numbers": "number"}, 0.5),
    "cosmo operate --softness": Entry(_operate_verb("--softness"), {"numbers": "number"}, 0.5),
    "cosmo operate --min-seen": Entry(_operate_verb("--min-seen"), {"numbers": "number"}, 0.1),
}
