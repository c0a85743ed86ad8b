"""Runner of the paper's trials, and the data that a folder holds for them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo._core import MissingExtra, require
from cosmo._core.cache import Cache, code_of, fingerprint
from cosmo._core.parallel import Workers
from cosmo.classifier._calibrate import HeldOut, calibrate, one_hold_out
from cosmo.classifier.combinations import GatedMixture
from cosmo.data import (
    DataError,
    GZSLDataset,
    Split,
    load_glyphs,
    read_predictions,
    read_xlsa17,
    read_xlsa17_split,
)
from cosmo.data.plain import StagePredictions
from cosmo.data.splits import PUBLISHED_SEEDS, Protocol
from cosmo.evaluation.expert_cache import ExpertCache, Training, train_all
from cosmo.evaluation.run import CALIBRATED
from cosmo.experts import make_seen_expert, make_unseen_expert
from cosmo.mixture.outputs import ExpertOutputs, OutputsSummary
from cosmo.mixture.smoothing import conditional
from cosmo.paper.trials import Case, Missing, Trial, measure

DATASETS = ("AWA1", "SUN", "CUB", "FLO")
_PREDICTION_FOLDERS = {"LAGO": "LAGO", "f-CLSWGAN": "fCLSWGAN"}
_TINY = 1e-12  # least probability
_FILES = ("pred_gzsl_val.npz", "rows_val.npz", "pred_gzsl_test.npz", "rows_test.npz")


@dataclass(frozen=True)
class Holding:
    """Files of one data set, or "glyphs", the built-in one.

    `folder` is in xlsa17 layout; `features` is its features file, without `.mat`; `predictions` has the
    folder of published predictions, by method.
    """

    name: str
    folder: Path | None = None
    features: str | None = None
    predictions: Mapping[str, Path] = field(default_factory=dict)

    @property
    def seed(self) -> int:
        """Seed of the validation split: the authors' where it is published."""
        return PUBLISHED_SEEDS.get(self.name, 0)

    @property
    def published_name(self) -> str:
        """Name of the data set in the paper's tables."""
        return "AWA" if self.name == "AWA1" else self.name

    def dataset(self, *, recorded: bool = False) -> GZSLDataset:
        """Return the data set; with `recorded`, original descriptions where the file has them."""
        if self.name == "glyphs":
            return load_glyphs()
        if self.folder is None or self.features is None:
            raise Missing(f"features of {self.name}: xlsa17/{self.name}/res101.mat")
        folder = self._splits_folder()
        try:
            return read_xlsa17(folder, features=self.features, original=recorded)
        except DataError:
            if not recorded:
                raise
            return read_xlsa17(folder, features=self.features)

    def split(self) -> tuple[pd.Index, Split]:
        """Return labels and split, without features."""
        if self.name == "glyphs":
            data = load_glyphs()
            return data.labels, data.split
        folder = self._splits_folder()
        if self.features is None and not (folder / "labels.mat").is_file():
            raise Missing(f"labels of {self.name}: xlsa17/{self.name}/res101.mat")
        return read_xlsa17_split(folder, labels=self.features or "labels")

    def _splits_folder(self) -> Path:
        if self.folder is None or not (self.folder / "att_splits.mat").is_file():
            raise Missing(f"splits of {self.name}: xlsa17/{self.name}/att_splits.mat")
        return self.folder

    def published_predictions(self, method: str) -> Path:
        """Return the folder of a method's published predictions."""
        folder_name = _PREDICTION_FOLDERS.get(method, method)
        where = f"published predictions of {method}: predictions/{folder_name}/{self.name}/"
        if method not in self.predictions:
            raise Missing(where)
        folder = self.predictions[method]
        for file in _FILES:
            if not (folder / file).is_file():
                raise Missing(where + file)
        return folder


def find_inputs(folder: str | os.PathLike[str] | None, *, features: str | None = None) -> dict[str, Holding]:
    """Return the files of each data set in a folder; the built-in `glyphs` is always included.

    `features` names the features file where a data set has several; by default `res101`, or the first.
    DataError if the folder has none of the paper's data, or no features file of that name.
    """
    if folder is None:
        return {"glyphs": Holding("glyphs")}
    root = Path(folder)
    if not root.is_dir():
        raise DataError(f"{root}: no such folder")
    found = {name: _dataset_files(root, name, features) for name in DATASETS}
    if not any(one.folder or one.predictions for one in found.values()):
        raise DataError(
            f"{root}: has none of {', '.join(DATASETS)}; expected are folders such as xlsa17/CUB "
            "(att_splits.mat, res101.mat) and predictions/LAGO/CUB"
        )
    if features is not None and all(one.features != features for one in found.values()):
        raise DataError(f"{root}: there is no xlsa17/*/{features}.mat; give the name without .mat")
    return {**found, "glyphs": Holding("glyphs")}


def _dataset_files(root: Path, name: str, features: str | None) -> Holding:
    folder = root / "xlsa17" / name
    files = sorted(path.stem for path in folder.glob("*.mat"))
    files = [stem for stem in files if not stem.endswith("_splits") and stem != "labels"]
    wanted = [stem for stem in (features, "res101") if stem in files] + files
    predictions = {method: root / "predictions" / kept / name for method, kept in _PREDICTION_FOLDERS.items()}
    return Holding(
        name,
        folder if folder.is_dir() else None,
        wanted[0] if wanted else None,
        {method: path for method, path in predictions.items() if path.is_dir()},
    )


EXPERTS = {
    name: name.lower().replace("(u)", "u")
    for name in (
        *("ESZSL", "SJE", "DeViSE", "SynC", "ALE", "DEM", "Kernel", "ICINESS", "TRIPLE", "RN", "SE-GZSL"),
        *("f-CLSWGAN", "cycle-(U)WGAN", "CMT", "DCN", "LAGO"),
    )
}
"""Our expert for each method of the paper."""


class Runner:
    """Measure trials on the data of a folder; the cache stores outputs of experts and measures of trials.

    `seen` is the seen expert, by default the paper's. `report` receives the number of trained experts and of
    all experts. `damaged` has the errors of files that could not be read; their results are missing.
    """

    def __init__(
        self,
        holdings: Mapping[str, Holding],
        cache: Cache,
        *,
        seen: Any = None,
        workers: Workers | None = None,
        report: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        self.holdings = holdings
        self.seen = make_seen_expert("logistic-sklearn") if seen is None else seen
        self.cache = cache
        self.workers = workers
        self._report = report
        self._datasets: dict[tuple[str, bool], GZSLDataset] = {}
        self._experts: dict[tuple[str, bool, int], ExpertCache] = {}
        self._predictions: dict[tuple[str, str, str], StagePredictions] = {}
        self._outputs: dict[Case, tuple[ExpertOutputs, ExpertOutputs]] = {}
        self._keys: dict[Case, str] = {}
        self.damaged: list[str] = []

    @contextmanager
    def _reading(self, dataset: str) -> Iterator[None]:
        """Record the error of a damaged file, and raise `Missing`, which does not name the folder."""
        try:
            yield
        except DataError as error:
            if str(error) not in self.damaged:
                self.damaged.append(str(error))
            raise Missing(f"undamaged files of {dataset}") from error

    def dataset(self, name: str, *, recorded: bool = False) -> GZSLDataset:
        """Return a data set, or raise `Missing`."""
        case = name, recorded
        if case not in self._datasets:
            with self._reading(name):
                self._datasets[case] = self.holdings[name].dataset(recorded=recorded)
        return self._datasets[case]

    def split(self, name: str) -> tuple[pd.Index, Split]:
        """Return labels and split of a data set, which need no features, or raise `Missing`."""
        with self._reading(name):
            return self.holdings[name].split()

    def prepare(self, trials: Iterable[Trial]) -> None:
        """Train all experts that trials need and that are not cached, in parallel.

        Missing data are reported by `result`.
        """
        wanted = dict.fromkeys(trial.case for trial in trials)
        trainings: list[Training] = []
        for case in wanted:
            try:
                if case[2] == "features":
                    trainings.append(self._training(case))
            except (Missing, MissingExtra):
                continue
        if trainings:
            train_all(trainings, workers=self.workers, report=self._report)

    def result(self, trial: Trial) -> dict[str, float]:
        """Return the trial's measures, in percent (see `measure`), or raise `Missing`."""
        compute: Callable[[], tuple[Any, Any, ExpertOutputs]]
        if trial.rule != CALIBRATED:
            outputs = self.outputs(trial.case)
            if trial.rule == "own gate" and outputs[1].novelty is None:
                raise Missing(f"a novelty detector in {trial.expert}")
            data = self._keys[trial.case] = self._keys.get(trial.case) or fingerprint(outputs)
            compute = lambda: (None, *outputs)  # noqa: E731
        elif trial.source == "features":
            training = self._training(trial.case)
            experts, pair = training.experts, (training.seen, training.unseen)
            data, compute = experts.key(*pair), lambda: experts.tested(experts.fit_calibrated(*pair))
        else:  # Published predictions have one hold-out only.
            stages = self._stages(trial.case)
            data, compute = fingerprint(stages), lambda: _calibrated(stages)
        key = fingerprint(trial, data, code_of(type(self)))
        kept = self.cache.read("trial", key)
        if not kept:
            rule, validation, test = compute()
            kept = measure(trial, validation, test, rule)
            self.cache.write("trial", key, kept)
        return kept

    def outputs(self, case: Case) -> tuple[ExpertOutputs, ExpertOutputs]:
        """Return the labelled outputs on GZSL-Val and on test, or raise `Missing`."""
        if case not in self._outputs:
            if case[2] == "features":
                training = self._training(case)
                stages = training.experts.fit(training.seen, training.unseen)
                found = stages.validation, stages.labelled(training.experts.test_labels)
            else:
                one, other = self._stages(case)
                names = self.dataset(case[0]).classes if case[2] == "predictions" else None
                found = _outputs(*one, names), _outputs(*other, names)
            self._outputs[case] = found
        return self._outputs[case]

    def _training(self, case: Case) -> Training:
        dataset, name, _ = case
        unseen = make_unseen_expert(EXPERTS[name])
        if unseen.needs_torch:
            require("torch")
        experts = self._at(dataset, unseen.as_recorded, None)
        try:
            unseen.check_suitable(experts.protocol.dataset.descriptions)
        except ValueError as error:
            raise Missing(f"descriptions of {dataset} that suit {name}: {error}") from error
        return Training(f"{dataset}: {name}", experts, self.seen, unseen)

    def _at(self, dataset: str, recorded: bool, seed: int | None) -> ExpertCache:
        seed = self.holdings[dataset].seed if seed is None else seed
        key = dataset, recorded, seed
        if key not in self._experts:
            protocol = Protocol(self.dataset(dataset, recorded=recorded), seed=seed)
            self._experts[key] = ExpertCache(protocol, self.cache)
        return self._experts[key]

    def _read(self, dataset: str, expert: str, stage: Literal["val", "test"]) -> StagePredictions:
        case = dataset, expert, stage
        if case not in self._predictions:
            folder = self.holdings[dataset].published_predictions(expert)
            with self._reading(dataset):
                self._predictions[case] = read_predictions(folder, stage)
        return self._predictions[case]

    def _stages(self, case: Case) -> list[tuple[StagePredictions, NDArray[np.float32] | None]]:
        """Return published predictions of both stages, and the probabilities of a seen expert trained here.

        None stands for their own seen columns.
        """
        dataset, expert, source = case
        validation, test = self._read(dataset, expert, "val"), self._read(dataset, expert, "test")
        if source == "scores":
            return [(validation, None), (test, None)]
        experts = self._at(dataset, False, validation.seed)
        data, held = experts.protocol.dataset, experts.protocol.hold_out
        seen_val, seen_test = experts.seen_predictions(self.seen)
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
        return [(validation, seen_val), (test, seen_test)]


def _outputs(
    stage: StagePredictions, seen: NDArray[np.float32] | None, names: pd.Index | None
) -> ExpertOutputs:
    """Return published predictions as outputs; classes in the order of their ids, as in the data set."""
    known, unknown, joint, seen, target = _parts(stage, seen)
    if names is not None:
        known, unknown = (names[part - 1] for part in (known, unknown))
    return ExpertOutputs.from_joint(seen, joint, known, unknown, target=target)


def _parts(stage: StagePredictions, seen: NDArray[np.float32] | None) -> tuple[Any, ...]:
    """Return both kinds of classes, sorted, both predictions and the true columns."""
    ids = [np.sort(part) for part in (stage.seen_classes, stage.unseen_classes)]
    joint = stage.proba[np.concatenate(ids)].to_numpy()
    if seen is None:
        seen = conditional(joint[:, : len(ids[0])])
    target = pd.Index(np.concatenate(ids)).get_indexer(pd.Index(stage.y))
    return *map(pd.Index, ids), joint, seen, target


def _calibrated(
    stages: Sequence[tuple[StagePredictions, NDArray[np.float32] | None]],
) -> tuple[GatedMixture, OutputsSummary, ExpertOutputs]:
    """Return the calibrated mixture of published predictions, its validation outputs and those on test."""
    held, scores = [], []
    for stage in stages:
        known, _, joint, seen, target = _parts(*stage)
        logits, score = (np.log(np.maximum(part, _TINY)) for part in (seen, joint))
        held.append(HeldOut(np.arange(len(known)), target, logits, np.zeros(len(target))))
        scores.append(score)
    n_unseen = scores[1].shape[1] - len(held[1].known)
    found = calibrate(
        one_hold_out(held[0], lambda classes: scores[0][:, classes], n_unseen), np.arange(scores[0].shape[1])
    )
    (test,) = held[1].offered([np.arange(len(held[1].known), scores[1].shape[1])], [scores[1]])
    return found.mixture, found.validation, test.outputs(found.temperatures)
