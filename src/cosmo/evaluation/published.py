"""Published figures, to stand beside ours: the tables of the COSMO paper and rows of the same benchmark.

`published.csv` has one number per row, in percent as printed. Its tables:

=============  =====================================================================================
main           COSMO Table 1: Acc_ts, Acc_tr and Acc_H on test
benchmark      rows of the same kind that the paper leaves out (DAP, CMT without novelty detection, ...)
zsl            T1: accuracy on unseen test rows among unseen classes; mostly from other papers
lago           T1 of the variants of LAGO
ausuc          COSMO Table 2: area under the seen-unseen curve, times 100
gating         COSMO Table 3: gates without smoothing; Acc_H on GZSL-Val, AUC and FPR on Gating-Val
smoothing      COSMO Table 4: smoothing with the Max-Softmax-1 gate, on GZSL-Val
combination    COSMO Table 5: gating and smoothing together, on test
joint          COSMO supplement D: training all parts jointly
=============  =====================================================================================

A note of *chosen on test* means that the authors' code picks the reported model by its test figures, and
*unverified* that the number was carried over without sight of its source.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import pandas as pd

__all__ = ["published_numbers", "published_rows"]

_WAYS = {"alone": "", "CS": "CS + ", "COSMO": "COSMO + "}
_METRICS = ["acc_ts", "acc_tr", "acc_h", "ausuc", "t1"]


@cache
def _numbers() -> pd.DataFrame:
    with files("cosmo.evaluation").joinpath("published.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file).fillna({"note": ""})


def published_numbers() -> pd.DataFrame:
    """Return all published numbers as a tidy table.

    Returns
    -------
    numbers : DataFrame
        One number per row. `table`, `method`, `dataset` and `metric` together tell rows apart; `kind` groups
        methods; `split` is test or validation; `value` is as printed, in percent; `corrected` is the right
        number where the printed one is wrong, else NaN; `note` gives the reason or a comment; `source` gives
        where the number is from.

    Examples
    --------
    >>> numbers = published_numbers()
    >>> gates = numbers[(numbers["table"] == "gating") & (numbers["metric"] == "auc")]
    >>> gates.pivot(index="method", columns="dataset", values="value").loc["CB-Gating-3"].to_dict()
    {'AWA': 92.5, 'CUB': 82.0, 'SUN': 77.7}
    """
    return _numbers().copy()


def published_rows(expert: str, dataset: str, *, corrected: bool = True) -> pd.DataFrame:
    """Return what was published on test for an unseen expert: alone, with calibrated stacking, inside COSMO.

    Parameters
    ----------
    expert : str
        Name of the method or of its class; case and punctuation other than the star do not matter: "FCLSWGAN"
        is f-CLSWGAN, "CMT*" is CMT with novelty detection.
    dataset : str
        "CUB", "AWA" (also "AWA1"), "SUN", "FLO"; "AWA2" has a few T1.
    corrected : bool
        Put right what is misprinted in the paper.

    Returns
    -------
    rows : DataFrame (3, 6)
        Index `alone`, `CS`, `COSMO`; columns `acc_ts`, `acc_tr`, `acc_h`, `ausuc`, `t1` in percent, `note`.
        Unpublished figures are NaN, also for an unknown expert or data set.

    Examples
    --------
    >>> published_rows("LAGO", "CUB").drop(columns="note")
           acc_ts  acc_tr  acc_h  ausuc    t1
    alone    24.6    64.8   35.6   34.3  58.0
    CS       43.1    53.7   47.9    NaN   NaN
    COSMO    44.4    57.8   50.2   35.7   NaN
    """
    numbers = _numbers()
    numbers = numbers[
        numbers["table"].isin(["main", "benchmark", "ausuc", "zsl"])
        & (numbers["dataset"] == ("AWA" if dataset == "AWA1" else dataset))
    ]
    names = numbers["method"].map(_plain)
    rows = pd.DataFrame(index=list(_WAYS), columns=_METRICS, dtype=float)
    rows["note"] = ""
    for way, prefix in _WAYS.items():
        found = numbers[names == _plain(prefix + expert)].set_index("metric")
        values = found["corrected"].fillna(found["value"]) if corrected else found["value"]
        rows.loc[way, _METRICS] = values.reindex(_METRICS)
        notes = "; ".join(note for note in found["note"] if note).split("; ")
        rows.loc[way, "note"] = "; ".join(dict.fromkeys(notes))
    return rows


def _plain(name: str) -> str:
    """Return a method's name as class names can spell it."""
    return "".join(letter for letter in name.casefold() if letter.isalnum() or letter in "*+")
