"""Change the operating point of a fitted model, without training."""

from cosmo import Cosmo
from cosmo.data import load_glyphs

data = load_glyphs(n_classes=60, samples_per_class=30)
train = data.split.trainval
model = Cosmo(data.descriptions).fit(data.features[train], data.labels[train])


def show(name: str) -> None:
    at = model.validation_curve_.at(model.operating_point_.threshold)
    tests = (data.split.test_seen, data.split.test_unseen)
    seen, unseen = (model.score(data.features[rows], data.labels[rows]) for rows in tests)
    print(
        f"{name:24} validation: seen {at.acc_tr:.0%}, unseen {at.acc_ts:.0%}   "
        f"test: seen {seen:.0%}, unseen {unseen:.0%}"
    )


show("best harmonic mean")
floors = {"at least 70 % on seen": {"min_seen": 0.7}, "at least 55 % on unseen": {"min_unseen": 0.55}}
for name, floor in floors.items():
    model.operate_at(**floor)
    show(name)
