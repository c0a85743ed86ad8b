"""Use `Cosmo` in a scikit-learn pipeline and grid search."""

from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cosmo import Cosmo
from cosmo.data import load_glyphs

data = load_glyphs(n_classes=40, samples_per_class=16)
train, test = data.split.trainval, data.split.test_unseen

pipeline = make_pipeline(StandardScaler(), Cosmo(data.descriptions, method="paper"))
search = GridSearchCV(pipeline, {"cosmo__smoothing": ["none", "adaptive"]}, cv=2)
search.fit(data.features[train], data.labels[train].to_numpy())
print("smoothing chosen on seen classes:", search.best_params_["cosmo__smoothing"])
print(f"unseen classes: {search.score(data.features[test], data.labels[test]):.0%} right among all classes")
