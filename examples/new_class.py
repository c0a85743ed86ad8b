"""Add a class after training: first by its description, then by its first samples."""

import numpy as np

import cosmo
from cosmo.data import load_glyphs

data = load_glyphs(n_classes=60, samples_per_class=30)
train = data.split.trainval
new = data.unseen_classes[0]  # left out of the training
known = data.descriptions.drop(index=new)

model = cosmo.fit_model(data.features[train], data.labels[train], known)
rows = data.split.test_unseen[data.labels[data.split.test_unseen] == new]
first, later = rows[: len(rows) // 2], rows[len(rows) // 2 :]

model.add_classes(data.descriptions.loc[[new]])
by_description = np.mean(model.predict(data.features[later]) == new)
model.learn(data.features[first], [new] * len(first))
by_samples = np.mean(model.predict(data.features[later]) == new)
print(f"{new!r}: {by_description:.0%} right by description, {by_samples:.0%} after {len(first)} samples")
