"""`cosmo studio`: inspect a model in the browser, classify samples, and try new classes."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cosmo._core import require
from cosmo.cli._options import (
    add_quiet,
    add_sample_options,
    add_trust,
    encode_samples,
    load_model,
    load_samples,
    make_parser,
)
from cosmo.cli._progress import progress
from cosmo.cli.serve import add_server_options, base_url, check_port, listen, warn
from cosmo.data import DataError

if TYPE_CHECKING:
    from cosmo.viz.studio.live import LiveModel

_RUNS = Path("cosmo-runs")
_MODEL, _REPORT = "model.cosmo", "report.html"
_PORT = 8765
_EPILOG = """\
The printed address contains a token: treat it as a password while the studio runs. Added classes exist in
the running studio only, until the model is downloaded. Ctrl-C stops it.

examples:
  cosmo studio                              the newest run below cosmo-runs
  cosmo studio cosmo-runs/CUB               a run that `cosmo run` wrote
  cosmo studio model.cosmo                  a model that `cosmo fit` wrote, on its validation
  cosmo studio model.cosmo test.csv         the same on labelled samples
  cosmo studio model.cosmo .                ... on the test samples of the project in this folder
"""


def parser() -> argparse.ArgumentParser:
    options = make_parser(
        "studio",
        "Serve a page on this machine: curves, gate, classes and walk-through of a model, with\n"
        "samples to try and classes to add.",
        _EPILOG,
    )
    add = options.add_argument
    add("model", nargs="?", metavar="MODEL",
        help="a model file, or the folder of a run (default: the newest run below cosmo-runs)")  # fmt: skip
    add("samples", nargs="?", metavar="SAMPLES",
        help="labelled samples like those of the training, or a project that names test samples (default: "
        "those of the run, or the validation stage of the model)")  # fmt: skip
    add("--weights", metavar="PATH", help="file or folder with the weights of the encoder")
    add_trust(add)
    add_sample_options(options)
    add(
        "--unknown",
        metavar="LABEL",
        help="label of samples of no class of the model, to show their rejection",
    )
    add_server_options(add, _PORT, ", or the next that is free")
    add("--no-browser", action="store_true", help="print the address only")
    add_quiet(add)
    return options


def run(args: argparse.Namespace) -> int:
    require("fastapi")
    require("uvicorn")
    check_port(args)
    with listen(args.host, args.port, _PORT) as listener:
        with progress(quiet=args.quiet) as step:
            live = _live(args, step)
        from cosmo.serving.access import is_loopback
        from cosmo.viz.studio import serve

        token = secrets.token_urlsafe(32)
        address = f"{base_url(listener, args.host)}/?token="
        if not is_loopback(args.host):
            warn("studio", args.host, " and has the address")
        print(f"cosmo studio: {address}{token}  (Ctrl-C ends it)", flush=True)
        has_display = sys.platform in ("darwin", "win32") or any(
            os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
        )
        shown = not args.no_browser and has_display
        open_browser = (lambda once: _open(f"{address}{once}")) if shown else None
        serve(live, listener, host=args.host, token=token, open_browser=open_browser)
    return 0


def _live(args: argparse.Namespace, step: Callable[[str], None]) -> LiveModel:
    """Return the model named by the options, with its samples or the view of its run."""
    from cosmo.viz.page import read_view
    from cosmo.viz.studio.live import LiveModel, Samples

    place = Path(args.model) if args.model is not None else _newest_run()
    args.model = str(place / _MODEL if place.is_dir() else place)
    if place.is_dir() and not Path(args.model).is_file():
        raise DataError(f"{place} has no {_MODEL}: name a model file, or the folder of a run of `cosmo run`")
    step(f"loading {args.model}")
    model = load_model(args)
    if args.samples is not None:
        samples = load_samples(args, model, test=True)
        samples.require_labels(args.samples)
        step(f"predicting {len(samples)} samples")
        rows, samples = encode_samples(args, model, samples)
        rows, known = model.encode(rows), samples.require_labels(args.samples) != args.unknown
        if args.unknown is not None and (known.all() or not known.any()):
            raise DataError(
                f"{args.samples}: samples of known classes and some labelled {args.unknown!r} are needed"
            )

        def part(which: NDArray[np.bool_]) -> Samples:
            some = samples.take(np.flatnonzero(which))
            items = some.items if isinstance(some.items, list) else None
            return Samples(rows[which], some.require_labels(args.samples), items)

        shown = part(known)
        if args.unknown is not None:
            shown = replace(shown, unknown=part(~known))
        return LiveModel(model, shown, title=Path(args.samples).resolve().name)
    report = place / _REPORT
    view = None
    if report.is_file():
        try:
            view = read_view(report.read_text(encoding="utf-8"))
        except (DataError, UnicodeDecodeError):
            step(f"{report} is not a report of this version: showing the validation stage of the model")
    return LiveModel(model, view=view, title=place.resolve().name)


def _newest_run() -> Path:
    runs = [path for path in _RUNS.glob(f"**/{_MODEL}") if path.is_file()]
    if not runs:
        raise DataError(
            f"there is no run below {_RUNS}: begin with `cosmo run`, or name a model that `cosmo fit` wrote"
        )
    return max(runs, key=lambda path: path.stat().st_mtime).parent


def _open(address: str) -> None:
    def work() -> None:
        with suppress(Exception):  # The address is printed as well.
            webbrowser.open(address)

    threading.Thread(target=work, daemon=True).start()
