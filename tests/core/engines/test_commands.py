"""Commands on a real cluster of two worker processes write what they write on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cluster_tasks import slow

from cosmo._core.engines import DaskEngine
from cosmo._core.engines.local import deaf_to_interrupts
from cosmo.cli import main
from cosmo.data import GZSLDataset, load_glyphs, write_xlsa17

distributed = pytest.importorskip("distributed")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def run_twice(cluster: Any, home: Path, argv: list[str]) -> tuple[Path, Path]:
    """Run a command on the cluster and here; return where each has written."""
    for name, engine in (
        ("dask", ["--engine", "dask", "--scheduler", cluster.scheduler_address]),
        ("here", ["--jobs", "1"]),
    ):
        folders = ["--cache", str(home / f"{name}-cache"), "--out", str(home / name)]
        assert main([*argv, *engine, *folders, "-q"]) == 0
    trained = [sorted(path.name for path in (home / f"{name}-cache").iterdir()) for name in ("dask", "here")]
    assert trained[0] == trained[1] != []
    return home / "dask", home / "here"


def test_compare(cluster: Any, tmp_path: Path):
    glyphs = load_glyphs(n_classes=40, samples_per_class=12)
    data = GZSLDataset(glyphs.features[:, ::6], glyphs.labels, glyphs.descriptions, glyphs.split)
    write_xlsa17(data, tmp_path / "small")
    argv = ["compare", str(tmp_path / "small"), "--methods", "eszsl", "dap", "--seen", "lda"]
    tables = [pd.read_csv(out / "compare.csv") for out in run_twice(cluster, tmp_path, argv)]
    first, second = (table.drop(columns="cpu_seconds") for table in tables)
    pd.testing.assert_frame_equal(first, second, check_exact=True)
    assert set(first["method"]) == {"ESZSL", "DAP"}


def test_paper(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "cosmo.paper.inputs.load_glyphs", partial(load_glyphs, n_classes=40, samples_per_class=12)
    )
    argv = ["paper", "gating", "--dataset", "glyphs", "--expert", "ESZSL", "--source", "features"]
    dask, here = run_twice(cluster, tmp_path, argv)
    assert contents(dask) == contents(here)
    assert "paper.md" in contents(here)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--worker-timeout", "0"], "--worker-timeout must be above 0, got 0"),
        (["--worker-timeout", "nan"], "--worker-timeout must be above 0, got nan"),
    ],
)
def test_options(options: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    argv = ["compare", "glyphs", "--engine", "dask", "--scheduler", "local", "--out", str(tmp_path / "out")]
    assert main([*argv, *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made by openssl")
def test_certificates_of_the_configuration(tmp_path: Path):
    dask = pytest.importorskip("dask")
    for command in (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca-key.pem -out ca.pem",
        "req -newkey rsa:2048 -nodes -subj /CN=cosmo -keyout key.pem -out request.pem",
        "x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 2 -out cert.pem",
    ):
        subprocess.run(["openssl", *command.split()], cwd=tmp_path, check=True, capture_output=True)
    settings = {"require-encryption": True, "tls.ca-file": str(tmp_path / "ca.pem")}
    for who in ("scheduler", "worker", "client"):
        settings |= {f"tls.{who}.{what}": str(tmp_path / f"{what}.pem") for what in ("cert", "key")}
    with dask.config.set({f"distributed.comm.{name}": value for name, value in settings.items()}):
        with deaf_to_interrupts():
            cluster = distributed.LocalCluster(
                n_workers=1,
                threads_per_worker=1,
                protocol="tls://",
                security=distributed.Security(),
                dashboard_address="127.0.0.1:0",
                silence_logs=50,
            )
        with cluster, DaskEngine(cluster.scheduler_address) as engine:
            assert cluster.scheduler_address.startswith("tls://")
            ((task, pid),) = engine.map(slow, [7], common=0.0, folder=tmp_path)
    assert task == 7
    assert pid != os.getpid()
