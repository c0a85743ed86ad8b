"""One table of the paper, on the built-in data set: gate and smoothing, apart and together."""

import tempfile

from cosmo._core.cache import Cache
from cosmo.paper.document import shown
from cosmo.paper.inputs import look_into
from cosmo.paper.runner import Runner
from cosmo.paper.tables import fill

with tempfile.TemporaryDirectory() as folder:
    # look_into("DATA") finds the benchmark's folders; None leaves the built-in data set.
    runner = Runner(look_into(None), Cache(folder))
    numbers = fill("main", runner, ["glyphs"], experts=["ESZSL"], sources=["features"])
for table in shown(numbers)[0]:
    print(table.heading)
    print(table.cells.to_string(index=False))
