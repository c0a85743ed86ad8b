"""The table that is filled: what each entry point does about each fault of each input that it takes."""

from __future__ import annotations

from cells import Cell
from entry import EXPERTS

Cells = dict[str, Cell]
EXPECTED: dict[tuple[str, str, str], Cell] = {}
"""By entry, kind of input and fault."""

FITS = [f"{name}.fit" for name in EXPERTS]
SCORED = [f"{name}.scores" for name in EXPERTS]
COSMO_ASKED = ["Cosmo.predict", "Cosmo.predict_proba", "Cosmo.explain", "Cosmo.score"]
MODEL_ASKED = ["Model.predict_frame", "evaluate_model"]
CSV_SAMPLES = ["read_features(csv)", "cosmo check", "cosmo fit"]
CSV_QUERIES = ["cosmo predict", "cosmo explain", "cosmo evaluate", "cosmo classes promote"]


def expect(entries: str | list[str], kind: str, *cells: Cells) -> None:
    """Declare cells of a kind of input; of several sets the later ones override."""
    for entry in [entries] if isinstance(entries, str) else entries:
        for part in cells:
            EXPECTED.update({(entry, kind, fault): cell for fault, cell in part.items()})
