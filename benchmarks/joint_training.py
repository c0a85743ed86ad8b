"""Joint training of experts and gate by one loss, as a control.

The seen expert, the unseen expert and the gate become one network, which gives `p(y)` by the law of total
probability and is trained to make `-log p(y)` small. A sample has one label, so the training rows can be
used in two ways only:

==========  ============================  ==================================  ==========================
option      classes of the seen expert    unseen side while training          what goes wrong
==========  ============================  ==================================  ==========================
held out    seen classes not held out     held-out seen classes               no seen expert for the rest
all seen    all seen classes              unseen classes: no samples          the gate learns "seen" only
==========  ============================  ==================================  ==========================

Atzmon & Chechik, "Adaptive confidence smoothing for generalized zero-shot learning", CVPR 2019,
supplement D. There is no smoothing here: without it the probabilities of all classes sum to one, so that
`-log p(y)` is a likelihood; adaptively smoothed scores do not.

Prints the table of docs/results/paper-studies.md:

    python benchmarks/joint_training.py --data DATA        CUB, a minute
    python benchmarks/joint_training.py                    the built-in glyphs
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo._core import require
from cosmo.data import GZSLDataset
from cosmo.data.splits import Protocol
from cosmo.evaluation.compare import published_numbers
from cosmo.evaluation.run import Settings, run_experiment
from cosmo.metrics.accuracy import GZSLScores, gate_auc, gzsl_scores, per_class_accuracy
from cosmo.paper.runner import find_inputs
from cosmo.viz.text import TextTable

if TYPE_CHECKING:
    from torch import Tensor

Option = Literal["held out", "all seen"]
K, TEMPERATURE = 5, 3.0  # of the gate, as in `cosmo.gates.ConfidenceGate`
EPOCHS, BATCH_SIZE, WEIGHT_DECAY = (4, 8, 16, 32, 64, 128), 64, 1e-5
PATIENCE = 2  # trials without a better accuracy that end the choice of epochs


@dataclass(frozen=True, eq=False)
class JointResult:
    """Test results of a jointly trained network.

    Parameters
    ----------
    option : {"held out", "all seen"}
    scores : GZSLScores
    seen_expert_accuracy : float
        Of the seen expert alone over all seen classes; classes that it does not have are wrong.
    gate_auc : float
    belief_on_seen, belief_on_unseen : float
        Mean `p(S)` on rows of seen and of unseen classes.
    epochs : int
    validation : dict
        Accuracy on held-out training rows after each number of epochs.
    """

    option: Option
    scores: GZSLScores
    seen_expert_accuracy: float
    gate_auc: float
    belief_on_seen: float
    belief_on_unseen: float
    epochs: int
    validation: dict[int, float]


class Trained(NamedTuple):
    """Predictions of a trained network on the test features."""

    option: Option
    dataset: GZSLDataset
    known: pd.Index
    classes: pd.Index
    log_proba: NDArray[np.float32]
    belief: NDArray[np.float32]
    validation: dict[int, float]

    def evaluate(self, y: pd.Index) -> JointResult:
        """Return the results for the labels of the opened test set."""
        seen, unseen = self.dataset.seen_classes, self.dataset.unseen_classes
        by_seen_expert = self.known[self.log_proba[:, : len(self.known)].argmax(axis=1)]
        is_seen = y.isin(seen)
        return JointResult(
            option=self.option,
            scores=gzsl_scores(y, self.classes[self.log_proba.argmax(axis=1)], seen, unseen),
            seen_expert_accuracy=per_class_accuracy(y, by_seen_expert, seen),
            gate_auc=gate_auc(is_seen, self.belief),
            belief_on_seen=float(self.belief[is_seen].mean()),
            belief_on_unseen=float(self.belief[~is_seen].mean()),
            epochs=max(self.validation, key=self.validation.__getitem__),
            validation=self.validation,
        )


def train_jointly(
    protocol: Protocol, option: Option, *, epochs: Sequence[int] = EPOCHS, learning_rate: float = 1e-2
) -> Trained:
    """Train both experts and the gate by one loss, and predict the test features.

    At test, the classes of the seen expert are predicted by it and all others by the unseen expert: the
    unseen classes and, under "held out", also the held-out seen classes, whose samples it was trained on.

    The number of epochs is the one of best accuracy per class on training rows that were set aside (Seen-Val
    and every third row of the held-out classes); then the network is trained again on all training rows. The
    descriptions of unseen classes are used in training under "all seen" only.
    """
    dataset, seed = protocol.dataset, protocol.seed
    if option not in get_args(Option):
        raise ValueError(f"option must be one of {', '.join(get_args(Option))}; got {option!r}")
    stops = sorted(set(epochs))
    if not stops or stops[0] < 1:
        raise ValueError(f"epochs must name numbers of at least 1, got {list(epochs)}")
    require("torch")
    training, held = protocol.training(), protocol.training_hold_out()
    protocol.check_labels(training.y)
    seen, unseen = dataset.seen_classes, dataset.unseen_classes
    known = seen[seen.isin(training.y[held.seen_train])] if option == "held out" else seen
    held_out = seen[~seen.isin(known)]
    others = held_out if option == "held out" else unseen
    stage, test_stage = known.append(others), known.append(held_out.append(unseen))
    adam = {"lr": learning_rate, "weight_decay": WEIGHT_DECAY}
    network = _Network(training.X, dataset.descriptions.loc[seen], len(known), adam, seed)
    A, codes = dataset.descriptions.loc[stage], stage.get_indexer(training.y)

    aside = np.concatenate([held.seen_val, held.unseen_val[::3]])
    used = np.setdiff1d(np.arange(len(training.y)), aside)
    tried = np.unique(codes[aside])
    validation = {}
    for done in network.train(training.X[used], codes[used], A, stops):
        guess = network.predict(training.X[aside], A)[0].argmax(axis=1)
        validation[done] = per_class_accuracy(codes[aside], guess, tried)
        best = max(validation, key=validation.__getitem__)
        if [*validation].index(best) < len(validation) - PATIENCE:
            break
    next(network.train(training.X, codes, A, [best]))

    predicted = network.predict(protocol.test_features(), dataset.descriptions.loc[test_stage])
    return Trained(option, dataset, known, test_stage, *predicted, validation)


def joint_table(dataset: GZSLDataset, seed: int = 0) -> pd.DataFrame:
    """Compare COSMO, with ESZSL as its unseen expert, with joint training of its parts.

    All columns are shares of one, on test; `gate_auc` is that of the gate's score of "seen".
    """
    protocol = Protocol(dataset, seed=seed)
    trained = [train_jointly(protocol, option) for option in get_args(Option)]
    settings = Settings(unseen="eszsl", seed=seed)
    experiment = run_experiment(dataset, settings, protocol=protocol, calibrated=False)
    outputs = experiment.test
    rows = {
        "COSMO, trained apart": {
            **experiment.evaluations[-1].scores._asdict(),
            "seen_expert_accuracy": experiment.facts["seen_expert_accuracy"],
            "gate_auc": gate_auc(outputs.is_seen, experiment.model.combination_.gate_.score(outputs)),
        }
    }
    for one in trained:
        result = one.evaluate(outputs.classes[outputs.labels])
        rows[f"joint, {result.option}"] = {
            **result.scores._asdict(),
            "seen_expert_accuracy": result.seen_expert_accuracy,
            "gate_auc": result.gate_auc,
        }
    return pd.DataFrame.from_dict(rows, orient="index")


class _Network:
    """Seen expert, unseen expert and gate, as one differentiable `p(y)`.

    Classes come as rows of a description table: those of the seen expert first, then the others.
    Features are centred and scaled to a mean length of one; descriptions are centred by the mean of the seen
    classes and scaled to unit length.
    """

    def __init__(
        self,
        X: NDArray[np.float32],
        descriptions: pd.DataFrame,
        n_known: int,
        adam: dict[str, float],
        seed: int,
    ) -> None:
        self.n_known, self.adam, self.seed = n_known, adam, seed
        self.mean = X.mean(axis=0)
        self.length = np.float32(np.mean([np.linalg.norm(row - self.mean) for row in X]) or 1)
        self.description_mean = descriptions.to_numpy().mean(axis=0)
        self.weights: dict[str, Tensor] = {}

    def train(
        self,
        X: NDArray[np.float32],
        codes: NDArray[np.intp],
        descriptions: pd.DataFrame,
        stops: Sequence[int],
    ) -> Iterator[int]:
        """Train from scratch and yield at each of `stops` (numbers of epochs)."""
        torch = require("torch")
        rows, labels = torch.from_numpy(self._features(X)), torch.from_numpy(codes)
        A = torch.from_numpy(self._signatures(descriptions))
        self.weights = {
            "seen": torch.zeros(rows.shape[1], self.n_known),
            "seen_bias": torch.zeros(self.n_known),
            "unseen": torch.zeros(rows.shape[1], A.shape[1]),
            "gate": torch.zeros(2 * K),
            "gate_bias": torch.zeros(1),
        }
        for tensor in self.weights.values():
            tensor.requires_grad_()
        adam = torch.optim.Adam(self.weights.values(), **self.adam, fused=True)
        generator = torch.Generator().manual_seed(self.seed)
        for epoch in range(1, max(stops) + 1):
            for batch in torch.randperm(len(rows), generator=generator).split(BATCH_SIZE):
                adam.zero_grad()
                log_proba, _ = self._forward(rows[batch], A)
                torch.nn.functional.nll_loss(log_proba, labels[batch]).backward()
                adam.step()
            if epoch in stops:
                yield epoch

    def predict(
        self, X: NDArray[np.float32], descriptions: pd.DataFrame
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return `log p(y)` (n_samples, n_classes) and `p(S)` (n_samples,)."""
        torch = require("torch")
        with torch.inference_mode():
            rows, A = (torch.from_numpy(part) for part in (self._features(X), self._signatures(descriptions)))
            log_proba, log_odds = self._forward(rows, A)
            return log_proba.numpy(), log_odds.sigmoid().numpy()

    def _forward(self, X: Tensor, A: Tensor) -> tuple[Tensor, Tensor]:
        """Return `log p(y)` and the gate's log-odds of "seen"."""
        torch = require("torch")
        w = self.weights
        seen = X @ w["seen"] + w["seen_bias"]
        joint = X @ w["unseen"] @ A.T
        others = joint[:, self.n_known :]
        confidences = joint.softmax(dim=1)[:, self.n_known :], (seen / TEMPERATURE).softmax(dim=1)
        log_odds = torch.cat([_top_k(part) for part in confidences], dim=1) @ w["gate"] + w["gate_bias"]
        log_sigmoid = torch.nn.functional.logsigmoid
        of_seen = seen.log_softmax(dim=1) + log_sigmoid(log_odds)[:, None]
        of_others = others.log_softmax(dim=1) + log_sigmoid(-log_odds)[:, None]
        log_proba = torch.cat([of_seen, of_others], dim=1)
        return log_proba, log_odds

    def _features(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        centred = X - self.mean
        centred /= self.length
        return centred

    def _signatures(self, descriptions: pd.DataFrame) -> NDArray[np.float32]:
        centred: NDArray[np.float32] = descriptions.to_numpy() - self.description_mean
        length = np.linalg.norm(centred, axis=1, keepdims=True)
        centred /= np.where(length > 0, length, 1)
        return centred


def _top_k(proba: Tensor) -> Tensor:
    """Return the K largest values of each row, largest first, with zeros where there are fewer."""
    pad = require("torch").nn.functional.pad
    return pad(proba, (0, max(0, K - proba.shape[1]))).topk(K, dim=1).values


def published(dataset: str) -> dict[tuple[str, str], float]:
    """Return the published figures by method and metric."""
    numbers = published_numbers().query("table == 'joint' and dataset == @dataset")
    return {(row["method"], row["metric"]): row["value"] for row in numbers.to_dict("records")}


def text(frame: pd.DataFrame, dataset: str) -> TextTable:
    """Return the table of joint training beside the published figures."""
    theirs = published(dataset)
    methods = ("seen expert", "joint training without held-out classes", "joint training with all classes")
    rows = []
    for (name, row), method in zip(frame.iterrows(), methods, strict=True):
        measures = ("acc_ts", "acc_tr", "acc_h", "seen_expert_accuracy", "gate_auc")
        ts, tr, h, seen, auc = (f"{100 * row[measure]:.1f}" for measure in measures)
        # Of COSMO itself the paper has the seen expert's accuracy here.
        seen_theirs = theirs.get((method, "acc_tr"), "") if method == "seen expert" else ""
        rows.append([name, ts, tr, h, str(theirs.get((method, "acc_h"), "")), seen, str(seen_theirs), auc])
    columns = ["", "ts", "tr", "H", "H published", "seen expert", "seen expert published", "gate AUC"]
    return TextTable(dataset, columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", metavar="DIR", help="folder with xlsa17/CUB")
    args = parser.parse_args()
    name = "CUB" if args.data else "glyphs"
    holding = find_inputs(args.data)[name]
    print(text(joint_table(holding.dataset(), holding.seed), name).markdown())


if __name__ == "__main__":
    main()
