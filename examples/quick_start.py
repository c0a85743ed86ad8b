"""Quick start: classes with images and classes with only a description, in one classifier."""

from cosmo import Cosmo
from cosmo.data import load_glyphs

data = load_glyphs(n_classes=60, samples_per_class=30)
train = data.split.trainval

model = Cosmo(data.descriptions).fit(data.features[train], data.labels[train])
print(f"{len(model.seen_classes_)} classes with images, {len(model.unseen_classes_)} with only a description")

for name, rows in (("seen", data.split.test_seen), ("unseen", data.split.test_unseen)):
    accuracy = model.score(data.features[rows], data.labels[rows])
    print(f"new images of {name} classes: {accuracy:.0%} right, among all {len(model.classes_)} classes")

print(model.explain(data.features[data.split.test_unseen][:1]))
