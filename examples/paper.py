"""A table of the paper, on the built-in data set: the effects of gate and smoothing."""

import tempfile

from cosmo._core.cache import Cache
from cosmo.paper.document import Selection, fill, text_tables
from cosmo.paper.runner import Runner, find_inputs

with tempfile.TemporaryDirectory() as folder:
    # find_inputs("DATA") finds the folders of the benchmark; with None there is only the built-in data set.
    runner = Runner(find_inputs(None), Cache(folder))
    figures = fill("main", runner, Selection(["glyphs"], experts=["ESZSL"], sources=["features"]))
for table in text_tables(figures)[0]:
    print(table.title)
    print(table.markdown())
