from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cosmo._core.engines import DaskEngine
from cosmo._core.engines.local import deaf_to_interrupts

sys.path.append(str(Path(__file__).parent))  # for the workers, which get ours


@contextmanager
def workers(count: int) -> Iterator[Any]:
    """Start a cluster of worker processes of one thread each."""
    distributed = pytest.importorskip("distributed")
    with deaf_to_interrupts():
        cluster = distributed.LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
        )
    with cluster:
        yield cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Two workers that nobody kills: under load, it may take minutes until one is there again."""
    with workers(2) as cluster:
        yield cluster


@pytest.fixture
def mortal() -> Iterator[Any]:
    """Two workers that may be killed."""
    with workers(2) as cluster:
        yield cluster


@pytest.fixture
def doomed() -> Iterator[Any]:
    """One worker that may be killed."""
    with workers(1) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def engine(cluster: Any) -> Iterator[DaskEngine]:
    with DaskEngine(cluster.scheduler_address) as engine:
        yield engine
