"""Images: a folder of files per class, attributes for every class. Needs the extra `torch`."""

import tempfile
from pathlib import Path

import cosmo
from cosmo.data import read_descriptions, read_image_folder
from cosmo.io.project import write_starter

with tempfile.TemporaryDirectory() as folder:
    write_starter("images", folder)  # train/<class>/*.jpg; use your own folder here
    paths, labels = read_image_folder(Path(folder, "train"))
    descriptions = read_descriptions(Path(folder, "descriptions.csv"))

    model = cosmo.fit_model(paths, labels, descriptions, encoder="efficientnet-lite0", name="signs")
    test_paths, test_labels = read_image_folder(Path(folder, "test"))
    table = model.predict_frame(test_paths[:8]).assign(truth=list(test_labels[:8]))
    print(table[["truth", "label", "probability", "p_seen"]].to_string())
