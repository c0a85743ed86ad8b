"""Small inputs for commands, and functions that run them."""

import io
import os
import shutil
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from scipy.io import loadmat, savemat

from cosmo.cli import main
from cosmo.data import GZSLDataset, load_glyphs, write_xlsa17


class Printed(NamedTuple):
    out: str
    err: str


@pytest.fixture(scope="session")
def cosmo():
    """Run a command in a folder, check its exit status, and return what it printed."""

    def run(*words, folder=None, status=0):
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setenv("COLUMNS", "80")
            patch.delenv("COSMO_DATA", raising=False)
            if folder is not None:
                patch.chdir(folder)
            try:
                code = main([str(word) for word in words])
            except SystemExit as stop:
                code = stop.code
        assert code == status, err.getvalue()
        return Printed(out.getvalue(), err.getvalue())

    return run


@pytest.fixture(scope="session")
def refuse(cosmo):
    """Run a command that must fail with exit status 2 and one line that contains a message."""

    def check(words, message, folder=None):
        out, err = cosmo(*words, folder=folder, status=2)
        lines = err.splitlines()
        assert out == ""
        assert message in lines[-1]
        assert lines[-1].startswith("cosmo")
        assert lines[0].startswith("usage: ") or len(lines) == 1

    return check


@pytest.fixture(scope="session")
def benchmark(tmp_path_factory):
    """Write a small data set in xlsa17 layout, with two files of descriptions."""
    path = tmp_path_factory.mktemp("data") / "CUB"
    glyphs = load_glyphs(n_classes=24, samples_per_class=12)
    features = glyphs.features[:, ::6]
    write_xlsa17(GZSLDataset(features, glyphs.labels, glyphs.descriptions, glyphs.split), path)
    fields = loadmat(path / "att_splits.mat")
    fields = {name: value for name, value in fields.items() if not name.startswith("__")}
    lengths = np.linalg.norm(fields["att"], axis=0)
    savemat(path / "att_splits.mat", {**fields, "att": fields["att"] / lengths})
    # Like encoded sentences: signed numbers, no original attributes.
    del fields["original_att"]
    mixing = np.random.default_rng(0).normal(size=(30, len(fields["att"])))
    savemat(path / "sent_splits.mat", {**fields, "att": mixing @ fields["att"]})
    return path


@pytest.fixture(scope="session")
def trained(cosmo, tmp_path_factory):
    """Write the example of `cosmo init` with a fitted model, samples of new classes and a new description."""
    folder = tmp_path_factory.mktemp("trained")
    cosmo("init", folder, "-q")
    # Chosen experts make no mistake on held-out samples, which leaves no choice of operating points.
    cosmo("fit", "-q", "--unseen", "eszsl", "--seen", "logistic", folder=folder)
    table = pd.read_csv(folder / "test.csv")
    table[table["fruit"].isin(["apple", "sloe", "plum"])].to_csv(folder / "new.csv", index=False)
    more = pd.read_csv(folder / "descriptions.csv", index_col=0).iloc[:1].set_axis(["jackfruit"])
    more.rename_axis("class").assign(**{"taste::sour": 1}).to_csv(folder / "more.csv")
    return folder


@pytest.fixture
def project(trained, tmp_path, monkeypatch):
    """Copy the example and change to its folder."""
    folder = Path(shutil.copytree(trained, tmp_path / "project"))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="session")
def start():
    """Start a command in a process and a session of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": ""}

    def start(*words, folder, **options):
        return subprocess.Popen(
            [sys.executable, "-m", "cosmo", *map(str, words)],
            text=True,
            env=environment,
            cwd=folder,
            start_new_session=True,
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
        )

    return start


@pytest.fixture(scope="session")
def wait_for():
    """Wait until a condition holds; return whether it does."""

    def wait(holds, seconds=60):
        end = time.monotonic() + seconds
        while not holds() and time.monotonic() < end:
            time.sleep(0.01)
        return bool(holds())

    return wait
