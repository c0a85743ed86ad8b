"""A model's card as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["card_text"]


def card_text(card: Mapping[str, Any]) -> str:
    """Return a card as lines to read.

    Examples
    --------
    >>> print(card_text({"data": "birds", "chosen": {"gamma": 100.0}, "date": None}))
    data    birds
    chosen  gamma 100
    """

    def show(value: Any) -> str:
        if isinstance(value, Mapping):
            return ", ".join(f"{name} {show(item)}" for name, item in value.items())
        if isinstance(value, list | tuple):
            return ", ".join(map(show, value))
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    shown = {name: show(value) for name, value in card.items() if value is not None and value != []}
    width = max(map(len, shown), default=0)
    return "\n".join(f"{name:{width}}  {text}" for name, text in shown.items())
