"""ODIN by size of the perturbation and temperature, and what leave-out ensembles learn, as Markdown.

python benchmarks/novelty_gates.py                                                  glyphs, a minute
python benchmarks/novelty_gates.py xlsa17/CUB --features res50 --seed 1002
"""

from __future__ import annotations

import argparse
import tempfile

import numpy as np
import pandas as pd

from cosmo._core.cache import Cache
from cosmo.data import GZSLDataset, load_glyphs, read_xlsa17
from cosmo.data.splits import Protocol, gating_split
from cosmo.evaluation.expert_cache import ExpertCache
from cosmo.experts import ESZSL, make_seen_expert
from cosmo.gates import LeaveOutGate, OdinGate
from cosmo.gates.leave_out import LeaveOutEnsemble
from cosmo.metrics.accuracy import gate_auc
from cosmo.viz.text import TextTable

VARIANTS = {
    "margin loss": LeaveOutGate(),
    "margin loss, no push": LeaveOutGate(epsilon=0.0),
    "cross-entropy only": LeaveOutGate(weight=0.0),
}
GAPS = ["training", "left-out classes, training rows", "left-out classes, other rows", "new classes"]


def odin_auc(dataset: GZSLDataset, seed: int) -> pd.DataFrame:
    """Return the AUC of ODIN on Gating-Val, in percent, by perturbation ε and temperature."""
    gate = OdinGate()
    with tempfile.TemporaryDirectory() as folder:
        experts = ExpertCache(Protocol(dataset, seed=seed), Cache(folder))
        validation = experts.fit(make_seen_expert("logistic"), ESZSL(), gate=gate).validation
    gating_val = validation[gating_split(len(validation))[1]]
    auc = [100 * gate_auc(gating_val.is_seen, column) for column in gating_val.evidence.T]
    index = pd.MultiIndex.from_tuples(gate.settings(), names=["temperature", "epsilon"])
    return pd.Series(auc, index).unstack("temperature")


def leave_out_gap(dataset: GZSLDataset, seed: int, gate: LeaveOutGate) -> list[float]:
    """Return the mean AUC, in percent, of the members' own classes against others, as in `GAPS`."""
    held = Protocol(dataset, seed=seed).hold_out
    X, codes = dataset.features[held.seen_train], dataset.codes[held.seen_train]
    X_val, val_codes = dataset.features[held.gzsl_val], dataset.codes[held.gzsl_val]
    ensemble = LeaveOutEnsemble(gate).fit(None, X, codes)
    on_train, on_val = ensemble.confidence(X), ensemble.confidence(X_val)
    met = np.isin(val_codes, ensemble.classes)
    found = []
    for column, left_out in enumerate(ensemble.left_out):
        left = ensemble.classes[left_out]
        trained, other = on_train[:, column], on_val[:, column]
        own = met & ~np.isin(val_codes, left)
        found.append(
            [
                gate_auc(~np.isin(codes, left), trained),
                gate_auc(own[met], other[met]),
                gate_auc(own[own | ~met], other[own | ~met]),
            ]
        )
    return (100 * np.mean(found, axis=0)).tolist()


def main() -> None:
    """Print both tables."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("folder", nargs="?", help="a folder in xlsa17 layout (default: glyphs)")
    options.add_argument("--features", default="res101")
    options.add_argument("--seed", type=int, default=0)
    args = options.parse_args()
    dataset = read_xlsa17(args.folder, features=args.features) if args.folder else load_glyphs()
    auc = odin_auc(dataset, args.seed)
    columns = ["ε", *(f"T = {temperature:g}" for temperature in auc.columns)]
    rows = [[f"{size:g}", *(f"{value:.2f}" for value in auc.loc[size])] for size in auc.index]
    print(TextTable("", columns, rows).markdown(), end="\n\n")
    gaps = [[name, *leave_out_gap(dataset, args.seed, gate)] for name, gate in VARIANTS.items()]
    print(TextTable("", GAPS, gaps).markdown())


if __name__ == "__main__":
    main()
