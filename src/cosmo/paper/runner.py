"""Runs the paper's experiments: trains each expert once, keeps it, and measures trials on what was said."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo._core.cache import Cache, code_of, fingerprint
from cosmo._core.extras import MissingExtra, require
from cosmo._core.parallel import Workers
from cosmo.data import GZSLDataset, read_predictions
from cosmo.data.predictions import StagePredictions
from cosmo.data.splits import Protocol
from cosmo.evaluation.stages import Stages
from cosmo.evaluation.training import Training, train_all
from cosmo.experts import UnseenExpert, make_unseen_expert
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.mixture.smoothing import conditional
from cosmo.paper.inputs import Holding, Missing
from cosmo.paper.joint import joint_table
from cosmo.paper.seen_experts import SEEN
from cosmo.paper.trials import Case, Trial, measure

__all__ = ["EXPERTS", "Runner"]

EXPERTS = {
    "ESZSL": "eszsl",
    "SJE": "sje",
    "DeViSE": "devise",
    "SynC": "sync",
    "ALE": "ale",
    "DEM": "dem",
    "Kernel": "kernel",
    "ICINESS": "iciness",
    "TRIPLE": "triple",
    "RN": "rn",
    "SE-GZSL": "se-gzsl",
    "f-CLSWGAN": "f-clswgan",
    "cycle-(U)WGAN": "cycle-uwgan",
    "CMT": "cmt",
    "DCN": "dcn",
    "LAGO": "lago",
}
"""Our expert for each method of the paper."""


class Runner:
    """Answers trials from what a folder holds.

    Parameters
    ----------
    holdings : dict of Holding
        See `cosmo.paper.inputs.find_inputs`.
    cache : Cache
        Keeps what experts say and what trials measure.
    workers : Workers or None, default=None
        Where experts are trained; see `cosmo.evaluation.training.train_all`.
    report : function of str
        Told what is going on.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     runner = Runner({"glyphs": Holding("glyphs")}, Cache(folder))
    ...     found = runner.result(Trial("glyphs", "ESZSL", "features", "COSMO"))
    >>> found["acc_h"] > 50
    True
    """

    def __init__(
        self,
        holdings: Mapping[str, Holding],
        cache: Cache,
        *,
        workers: Workers | None = None,
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.holdings = holdings
        self.cache = cache
        self.workers = workers
        self.report = report
        self._datasets: dict[tuple[str, bool], GZSLDataset] = {}
        self._stages: dict[tuple[str, bool, int], Stages] = {}
        self._predictions: dict[tuple[str, str, str], StagePredictions] = {}
        self._outputs: dict[Case, tuple[ExpertOutputs, ExpertOutputs]] = {}
        self._keys: dict[Case, str] = {}

    def dataset(self, name: str, *, recorded: bool = False) -> GZSLDataset:
        """Return a data set, or raise `Missing`."""
        case = name, recorded
        if case not in self._datasets:
            self._datasets[case] = self.holdings[name].dataset(recorded=recorded)
        return self._datasets[case]

    def prepare(self, trials: Iterable[Trial]) -> None:
        """Train all experts that trials need and that are not trained yet, side by side.

        What is missing is left to `result`, which says so.
        """
        wanted = dict.fromkeys(trial.case for trial in trials)
        trainings: list[Training] = []
        for case in wanted:
            try:
                trainings += self._trainings(case)
            except (Missing, MissingExtra):
                continue
        if trainings:
            # The seen experts first: most trials wait for them.
            trainings.sort(key=lambda training: isinstance(training.expert, UnseenExpert))
            train_all(trainings, workers=self.workers, report=self.report)

    def result(self, trial: Trial) -> dict[str, float]:
        """Return the trial's measures, in percent (see `measure`), or raise `Missing`."""
        validation, test = self.outputs(trial.case)
        if trial.rule == "own gate" and test.novelty is None:
            raise Missing(f"a novelty detector in {trial.expert}")
        if trial.case not in self._keys:
            self._keys[trial.case] = fingerprint(validation, test, code_of(type(self)))
        key = fingerprint(trial, self._keys[trial.case])
        kept = self.cache.read("trial", key)
        if not kept:
            kept = measure(trial, validation, test)
            self.cache.write("trial", key, kept)
        return kept

    def outputs(self, case: Case) -> tuple[ExpertOutputs, ExpertOutputs]:
        """Return what the experts say on GZSL-Val and on test, or raise `Missing`."""
        if case not in self._outputs:
            self._outputs[case] = self._trained(case) if case[2] == "features" else self._published(case)
        return self._outputs[case]

    @property
    def asked(self) -> list[Case]:
        """The cases whose outputs were asked for so far, and are here."""
        return list(self._outputs)

    def joint(self, dataset: str) -> pd.DataFrame:
        """Return the table of joint training (see `cosmo.paper.joint.joint_table`), computed once."""
        require("torch")
        data, seed = self.dataset(dataset), self.holdings[dataset].seed
        key = fingerprint(data.features, data.codes, data.descriptions, data.split, seed, code_of(type(self)))
        kept = self.cache.read("joint", key)
        if not kept:
            self.report(f"training all parts jointly on {dataset}")
            kept = {str(row): values for row, values in joint_table(data, seed).to_dict("index").items()}
            self.cache.write("joint", key, kept)
        return pd.DataFrame.from_dict(kept, orient="index")

    def _trainings(self, case: Case) -> list[Training]:
        dataset, expert, source, seen = case
        if source == "scores":
            return []
        if source == "predictions":
            stages = self._at(dataset, False, self._read(dataset, expert, "val").seed)
            return [Training(f"{dataset}: seen expert ({seen})", stages, SEEN[seen])]
        guess = self._expert(expert)
        stages = self._at(dataset, guess.as_recorded, None)
        try:
            guess.check_suitable(stages.dataset.descriptions)
        except ValueError as error:
            raise Missing(f"descriptions of {dataset} that {expert} can take: {error}") from error
        return [
            Training(f"{dataset}: seen expert ({seen})", stages, SEEN[seen]),
            Training(f"{dataset}: {expert}", stages, guess),
        ]

    def _expert(self, name: str) -> UnseenExpert:
        expert = make_unseen_expert(EXPERTS[name])
        if expert.needs_torch:
            require("torch")
        return expert

    def _at(self, dataset: str, recorded: bool, seed: int | None) -> Stages:
        seed = self.holdings[dataset].seed if seed is None else seed
        case = dataset, recorded, seed
        if case not in self._stages:
            self._stages[case] = Stages(self.dataset(dataset, recorded=recorded), self.cache, seed=seed)
        return self._stages[case]

    def _trained(self, case: Case) -> tuple[ExpertOutputs, ExpertOutputs]:
        known, guess = self._trainings(case)
        stages = guess.stages
        assert isinstance(guess.expert, UnseenExpert)
        return stages.outputs(stages.seen(known.expert), stages.unseen(guess.expert), guess.expert)

    def _read(self, dataset: str, expert: str, stage: Literal["val", "test"]) -> StagePredictions:
        case = dataset, expert, stage
        if case not in self._predictions:
            folder = self.holdings[dataset].published_predictions(expert)
            self._predictions[case] = read_predictions(folder, stage)
        return self._predictions[case]

    def _published(self, case: Case) -> tuple[ExpertOutputs, ExpertOutputs]:
        """Return published predictions, with a seen expert trained here or with their own seen columns."""
        dataset, expert, source, _ = case
        validation, test = self._read(dataset, expert, "val"), self._read(dataset, expert, "test")
        if source == "scores":
            return _outputs(validation), _outputs(test)
        (known,) = self._trainings(case)
        said = known.stages.seen(known.expert)
        data = known.stages.dataset
        held = Protocol(data, seed=known.stages.seed).hold_out
        rows = held.gzsl_val, np.concatenate([np.sort(data.split.test_seen), np.sort(data.split.test_unseen)])
        sides = (held.seen_train, held.unseen_val), (data.split.trainval, data.split.test_unseen)
        for stage, expected, (seen, unseen) in zip((validation, test), rows, sides, strict=True):
            pairs = (
                (stage.rows, expected),
                (stage.y, data.codes[expected] + 1),
                (np.sort(stage.seen_classes), np.unique(data.codes[seen]) + 1),
                (np.sort(stage.unseen_classes), np.unique(data.codes[unseen]) + 1),
            )
            if not all(np.array_equal(theirs, ours) for theirs, ours in pairs):
                raise Missing(f"the rows of {expert}'s published predictions in {dataset}'s own split")
        return _outputs(validation, said.validation, data.classes), _outputs(test, said.test, data.classes)


def _outputs(
    stage: StagePredictions, seen: NDArray[np.float32] | None = None, names: pd.Index | None = None
) -> ExpertOutputs:
    """Return published predictions as outputs; classes in the order of their ids, as in the data set."""
    ids = [np.sort(part) for part in (stage.seen_classes, stage.unseen_classes)]
    joint = stage.proba[np.concatenate(ids)].to_numpy()
    known, unknown = (pd.Index(part) if names is None else names[part - 1] for part in ids)
    return ExpertOutputs.from_joint(
        conditional(joint[:, : len(known)]) if seen is None else seen,
        joint,
        known,
        unknown,
        target=pd.Index(np.concatenate(ids)).get_indexer(pd.Index(stage.y)),
    )
