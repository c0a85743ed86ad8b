"""Hold-out rounds that resemble deployment.

In each round some seen classes play unseen ones, in the proportion of the task: with `n_S` seen and `n_U`
unseen classes, `h` classes are offered as unseen beside `n_S - h` others, where `h / (n_S - h)` is close to
`n_U / n_S`. If `h` is small, more classes are held out at once, and offered in groups of `h`, so that few
rounds hold out every class.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmo._core.validation import as_number
from cosmo.data.splits import HoldOut

ROUNDS = 6  # most rounds in which every class is held out once
_MANY = 30  # seen classes, with which one round fewer leaves enough for the training
_LEAST = 4  # rounds if many classes are held out in each
_ROW_SHARE = 1 / 8  # of the rows of the other classes, for Seen-Val
_MAX_ROWS = 20_000  # of Seen-Val and of Unseen-Val in a round

Codes = NDArray[np.intp]


class Half(NamedTuple):
    """Half of the held-out classes, offered to an expert that is trained with the other half, too.

    It shows how scores change with the number of training classes.
    """

    classes: Codes
    train: Codes  # rows: Seen-Train, and those of the other half


class Round(NamedTuple):
    """One hold-out round; classes are codes from 0."""

    held: HoldOut
    groups: list[Codes]  # held-out classes that are offered together
    halves: list[Half]  # none if one class is held out


def expected_unseen(n_seen: int, n_unseen: int) -> int:
    """Return the number of unseen classes of the task; if there is none yet, a quarter of the seen ones."""
    return n_unseen or max(1, n_seen // 4)


def offered_together(n_seen: int, n_unseen: int) -> int:
    """Return how many of `n_seen` classes are offered as unseen, in the proportion of the task.

    At least one, at most half of them.

    Examples
    --------
    >>> offered_together(150, 50), offered_together(60, 1), offered_together(12, 50)
    (38, 1, 6)
    """
    proportional = round(n_seen * n_unseen / (n_seen + n_unseen))
    return max(1, min(proportional, n_seen // 2))


def deployment_rounds(
    codes: Codes,
    n_unseen: int,
    *,
    n_rounds: int | None = None,
    halves: bool = True,
    seed: int | None = 0,
) -> list[Round]:
    """Draw the rounds, by default 4 to 6; every class is held out about equally often.

    `codes` are the classes of the rows, from 0; `n_unseen` is the number of unseen classes of the task;
    `halves` draws `Round.halves`.

    Examples
    --------
    >>> rounds = deployment_rounds(np.repeat(np.arange(12), 8), 3)
    >>> len(rounds), [group.tolist() for group in rounds[0].groups]
    (6, [[2, 9]])
    """
    n_seen = int(codes.max()) + 1
    offered = offered_together(n_seen, n_unseen)
    if n_rounds is None:
        n_held = max(offered, -(-n_seen // (ROUNDS - (n_seen >= _MANY))))
        n_rounds = min(max(_LEAST, -(-n_seen // n_held)), n_seen)
    else:
        n_rounds = as_number(n_rounds, name="rounds", whole=True)
        if not 1 <= n_rounds <= n_seen:
            raise ValueError(f"rounds must be between 1 and the {n_seen} seen classes, got {n_rounds}")
        n_held = max(offered, min(-(-n_seen // n_rounds), n_seen // 2))
    rng = np.random.default_rng(seed)
    in_turn = np.concatenate([rng.permutation(n_seen) for _ in range(-(-n_held * n_rounds // n_seen) + 1)])
    place, sizes = _places(codes, rng)
    rounds = []
    for k in range(n_rounds):
        # A class that would be held out twice in this round is the first of the next one.
        first = np.sort(np.unique(in_turn, return_index=True)[1])[:n_held]
        rounds.append(_round(codes, in_turn[first], offered, k, place, sizes, rng))
        in_turn = np.delete(in_turn, first)
    return rounds if halves else [one._replace(halves=[]) for one in rounds]


def _places(codes: Codes, rng: np.random.Generator) -> tuple[Codes, Codes]:
    """Return the place of each row among those of its class in a random order, and their number."""
    order = rng.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    counts = np.bincount(codes)
    place = np.empty(len(codes), dtype=np.intp)
    place[order] = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    return place, counts[codes]


def _round(
    codes: Codes, classes: Codes, offered: int, k: int, place: Codes, sizes: Codes, rng: np.random.Generator
) -> Round:
    held = np.isin(codes, classes)
    share = min(_ROW_SHARE, _MAX_ROWS / len(codes))
    n_val = np.minimum(np.maximum(np.rint(sizes * share), 1), sizes - 1).astype(np.intp)
    # Each round validates on other rows of a class, as long as there are enough.
    is_val = (place - k * n_val) % sizes < n_val
    if not (is_val & ~held).any():
        raise ValueError("too few classes have two rows, one of which could be held out; add samples")
    train = np.flatnonzero(~is_val & ~held)
    few = place < max(1, _MAX_ROWS // len(classes))
    hold_out = HoldOut(train, np.flatnonzero(is_val & ~held), np.flatnonzero(held & few))
    cut = len(classes) // 2
    halves = []
    for half, other in ((classes[:cut], classes[cut:]), (classes[cut:], classes[:cut])):
        if cut:
            more = np.flatnonzero(np.isin(codes, other) & (~is_val | (sizes == 1)))
            halves.append(Half(half, np.concatenate([train, more])))
    return Round(hold_out, groups_of(rng.permutation(classes), offered), halves)


def groups_of(classes: Codes, size: int) -> list[Codes]:
    """Return the classes in groups of one size, sorted; of what remains, some are in two groups."""
    n_groups = -(-len(classes) // size)
    starts = [min(k * size, len(classes) - size) for k in range(n_groups)]
    return [np.sort(classes[max(0, start) : max(0, start) + size]) for start in starts]
