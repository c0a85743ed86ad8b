"""Experts: classifiers of seen classes, and recognisers of classes known by description only."""

from __future__ import annotations

import ast
from typing import Any

from sklearn.linear_model import LogisticRegression

from cosmo.experts.base import UnseenExpert
from cosmo.experts.cmt import CMT
from cosmo.experts.dap import DAP
from cosmo.experts.dcn import DCN
from cosmo.experts.dem import DEM
from cosmo.experts.eszsl import ESZSL
from cosmo.experts.gan import FCLSWGAN, CycleUWGAN, CycleWGAN
from cosmo.experts.iciness import ICINESS
from cosmo.experts.kernel import Kernel
from cosmo.experts.lago import LAGO
from cosmo.experts.logistic import SoftmaxRegression
from cosmo.experts.pair import ExpertPair
from cosmo.experts.precomputed import PrecomputedExpert
from cosmo.experts.ranking import ALE, SJE, DeViSE
from cosmo.experts.rn import RN
from cosmo.experts.selection import select
from cosmo.experts.similarity import SimilarityExpert
from cosmo.experts.sync import SynC
from cosmo.experts.triple import TRIPLE
from cosmo.experts.vae import SEGZSL

__all__ = [
    "ALE",
    "CMT",
    "DAP",
    "DCN",
    "DEM",
    "ESZSL",
    "FCLSWGAN",
    "ICINESS",
    "LAGO",
    "RN",
    "SEEN_EXPERTS",
    "SEGZSL",
    "SJE",
    "TRIPLE",
    "UNSEEN_EXPERTS",
    "CycleUWGAN",
    "CycleWGAN",
    "DeViSE",
    "ExpertPair",
    "Kernel",
    "PrecomputedExpert",
    "SimilarityExpert",
    "SoftmaxRegression",
    "SynC",
    "UnseenExpert",
    "make_seen_expert",
    "make_unseen_expert",
    "select",
]

SEEN_EXPERTS = {
    "logistic": "multinomial logistic regression, C = 1 (the paper's)",
    "logistic-unit": "the same with C = 30, for features of unit length, such as embeddings of text",
    "logistic-sklearn": "the same as logistic, by scikit-learn's L-BFGS",
    "lda": "linear discriminant analysis with shrinkage",
    "knn": "nearest neighbours, weighted by distance",
}

UNSEEN_EXPERTS: dict[str, type[UnseenExpert]] = {
    "eszsl": ESZSL,
    "dap": DAP,
    "sje": SJE,
    "devise": DeViSE,
    "ale": ALE,
    "sync": SynC,
    "lago": LAGO,
    "kernel": Kernel,
    "similarity": SimilarityExpert,
    "triple": TRIPLE,
    "cmt": CMT,
    "dem": DEM,
    "rn": RN,
    "dcn": DCN,
    "iciness": ICINESS,
    "f-clswgan": FCLSWGAN,
    "cycle-wgan": CycleWGAN,
    "cycle-uwgan": CycleUWGAN,
    "se-gzsl": SEGZSL,
}


def make_seen_expert(name: str) -> Any:
    """Return a new scikit-learn classifier by its name in `SEEN_EXPERTS`.

    Examples
    --------
    >>> make_seen_expert("logistic")
    SoftmaxRegression(tol=0.0001)
    """
    if name == "logistic":
        return SoftmaxRegression(C=1.0, tol=1e-4)
    if name == "logistic-unit":
        return SoftmaxRegression(C=30.0, tol=1e-4)
    if name == "logistic-sklearn":
        return LogisticRegression(C=1.0, max_iter=2000)
    # Imported where they are wanted: they would delay every start.
    if name == "lda":
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

        return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    if name == "knn":
        from sklearn.neighbors import KNeighborsClassifier

        return KNeighborsClassifier(n_neighbors=15, weights="distance")
    raise ValueError(f"unknown seen expert {name!r}; choose from {', '.join(SEEN_EXPERTS)}")


def make_unseen_expert(name: str) -> UnseenExpert:
    """Return a new zero-shot expert by its name in `UNSEEN_EXPERTS`.

    A colon adds parameters, "lago:variant=k-soft,n_groups=40", or names one of the method's published
    settings, "dem:CUB".

    Examples
    --------
    >>> make_unseen_expert("eszsl"), make_unseen_expert("eszsl:gamma=100,centre=False")
    (ESZSL(), ESZSL(centre=False, gamma=100))
    """
    name, colon, details = name.partition(":")
    if name not in UNSEEN_EXPERTS:
        raise ValueError(f"unknown unseen expert {name!r}; choose from {', '.join(UNSEEN_EXPERTS)}")
    expert = UNSEEN_EXPERTS[name]
    if not colon:
        return expert()
    if "=" not in details:
        if details not in expert.presets:
            known = ", ".join(map(repr, expert.presets)) or "none"
            raise ValueError(f"unknown preset {details!r} of {name}; there is {known}")
        return expert(**expert.presets[details])
    parameters = dict(item.partition("=")[::2] for item in details.split(","))
    if not all(parameters.values()):
        raise ValueError(f"{details!r} is not a list of parameters such as name=value,name=value")
    unknown = set(parameters) - set(expert().get_params())
    if unknown:
        known = ", ".join(expert().get_params())
        raise ValueError(f"{name} has no parameter {min(unknown)!r}; it has {known}")
    return expert(**{key: _literal(value) for key, value in parameters.items()})


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
