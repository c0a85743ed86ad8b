"""Feature tables: fit a model on your own tables, save it and load it."""

import tempfile
from pathlib import Path

import cosmo
from cosmo.data import read_descriptions, read_features
from cosmo.evaluation.evaluate import evaluate_model
from cosmo.io.project import write_starter

with tempfile.TemporaryDirectory() as folder:
    # Replace the files by your own: samples with a column of labels, and a row of attributes per class.
    write_starter("features", folder)
    X, y = read_features(Path(folder, "samples.csv"), label="fruit")
    descriptions = read_descriptions(Path(folder, "descriptions.csv"))

    model = cosmo.fit_model(X, y, descriptions, unseen=cosmo.LAGO(), name="fruit")
    model.save(Path(folder, "fruit.cosmo"))

    loaded = cosmo.Model.load(Path(folder, "fruit.cosmo"))
    X_test, y_test = read_features(Path(folder, "test.csv"), label="fruit")
    print(loaded)
    print(loaded.predict_frame(X_test[::24], top=2).to_string())
    print(f"Acc_H on test: {evaluate_model(loaded, X_test, y_test).scores.acc_h:.2f}")
