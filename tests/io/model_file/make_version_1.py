"""How `version_1.cosmo` was made. It must stay readable: never make it again for a released format.

Run from the root of the repository: python tests/io/model_file/make_version_1.py
"""

import json
from pathlib import Path

import numpy as np

from cosmo import ESZSL
from cosmo.data import load_glyphs
from cosmo.io.model import fit_model

HERE = Path(__file__).parent


def rows(data, which):
    """Return a few features of some samples; a coarse look at the glyph is enough here."""
    return data.features[which][:, ::16].round(2)


def main():
    """Write the model, and how it answers."""
    data = load_glyphs(n_classes=16, samples_per_class=12, seed=0)
    train = data.split.trainval
    model = fit_model(
        rows(data, train),
        data.labels[train],
        data.descriptions,
        name="glyphs",
        date="2026-11-16",
        exemplars=2,
        unseen=ESZSL(1.0, 1.0),
    )
    model.save(HERE / "version_1.cosmo")
    items = rows(data, np.arange(0, len(data.labels), 6))
    answers = {
        "rows": items.astype(float).round(2).tolist(),
        "classes": model.cosmo.classes_.tolist(),
        "predictions": model.predict(items).tolist(),
        "probabilities": model.cosmo.predict_proba(items).tolist(),
    }
    (HERE / "version_1.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main()
