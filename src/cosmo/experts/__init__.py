"""Experts: classifiers of seen classes, and zero-shot classifiers of classes known by description."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cosmo._core import lazy

if TYPE_CHECKING:
    from cosmo.experts.base import UnseenExpert, select
    from cosmo.experts.class_means import GaussianExpert, SimilarityExpert
    from cosmo.experts.classifiers import DAP, SynC
    from cosmo.experts.composed import EnsembleExpert, PrecomputedExpert
    from cosmo.experts.embedding import CMT, DCN, DEM
    from cosmo.experts.eszsl import ESZSL
    from cosmo.experts.generators import FCLSWGAN, SEGZSL, CycleUWGAN, CycleWGAN
    from cosmo.experts.kernel import Kernel
    from cosmo.experts.lago import LAGO
    from cosmo.experts.pair import ExpertPair
    from cosmo.experts.ranking import ALE, SJE, DeViSE
    from cosmo.experts.relation import ICINESS, RN, TRIPLE
    from cosmo.experts.seen import SEEN_EXPERTS, Discriminant, SoftmaxRegression, make_seen_expert

# Modules are imported on first use: most programs need one expert of many.
_UNSEEN = {
    "eszsl": "eszsl:ESZSL",
    "dap": "classifiers:DAP",
    "sje": "ranking:SJE",
    "devise": "ranking:DeViSE",
    "ale": "ranking:ALE",
    "sync": "classifiers:SynC",
    "lago": "lago:LAGO",
    "gaussian": "class_means:GaussianExpert",
    "kernel": "kernel:Kernel",
    "similarity": "class_means:SimilarityExpert",
    "triple": "relation:TRIPLE",
    "cmt": "embedding:CMT",
    "dem": "embedding:DEM",
    "rn": "relation:RN",
    "dcn": "embedding:DCN",
    "iciness": "relation:ICINESS",
    "f-clswgan": "generators:FCLSWGAN",
    "cycle-wgan": "generators:CycleWGAN",
    "cycle-uwgan": "generators:CycleUWGAN",
    "se-gzsl": "generators:SEGZSL",
}
_MODULES = {name: module for module, _, name in (entry.partition(":") for entry in _UNSEEN.values())} | {
    "SEEN_EXPERTS": "seen",
    "SoftmaxRegression": "seen",
    "make_seen_expert": "seen",
    "Discriminant": "seen",
    "EnsembleExpert": "composed",
    "ExpertPair": "pair",
    "PrecomputedExpert": "composed",
    "UnseenExpert": "base",
    "select": "base",
}
__getattr__, __dir__ = lazy(__name__, _MODULES)
__all__ = [*_MODULES, "UNSEEN_EXPERTS", "make_unseen_expert"]


class _Experts(Mapping[str, "type[UnseenExpert]"]):
    """Classes of unseen experts by name, imported on access."""

    def __getitem__(self, name: str) -> type[UnseenExpert]:
        module, _, kind = _UNSEEN[name].partition(":")
        return getattr(import_module(f"{__name__}.{module}"), kind)

    def __iter__(self) -> Iterator[str]:
        return iter(_UNSEEN)

    def __len__(self) -> int:
        return len(_UNSEEN)


UNSEEN_EXPERTS: Mapping[str, type[UnseenExpert]] = _Experts()


def make_unseen_expert(name: str) -> UnseenExpert:
    """Return a new zero-shot expert by its name in `UNSEEN_EXPERTS`.

    Parameters
    ----------
    name : str
        A colon adds parameters, "lago:variant=k-soft,n_groups=40", or the name of a published setting,
        "dem:CUB".

    Returns
    -------
    UnseenExpert

    Raises
    ------
    ValueError
        If the name, a parameter or the setting is unknown.

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
    parameters = parameters_in(details)
    unknown = set(parameters) - set(expert().get_params())
    if unknown:
        known = ", ".join(expert().get_params())
        raise ValueError(f"{name} has no parameter {min(unknown)!r}; it has {known}")
    return expert(**parameters)


def parameters_in(text: str) -> dict[str, Any]:
    """Return the parameters of a text such as "name=value,name=value"."""
    parameters = dict(item.partition("=")[::2] for item in text.split(",") if text)
    if not all(parameters.values()):
        raise ValueError(f"{text!r} is not a list of parameters such as name=value,name=value")
    return {key: _literal(value) for key, value in parameters.items()}


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
