"""Text: intents with training texts, and intents with one sentence. Needs the extra `text`."""

import tempfile
from pathlib import Path

from cosmo.io.project import read_project, write_starter

with tempfile.TemporaryDirectory() as folder:
    write_starter("text", folder)  # requests to a small shop; replace the files by your own
    project = read_project(Path(folder, "cosmo.toml"))
    data = project.load()
    model = project.fit(data)
    print(f"unseen intents: {', '.join(model.cosmo.unseen_classes_)}")

    requests = ["my parcel is late", "please wrap it as a present", "i want to talk to a person"]
    print(model.predict_frame(requests, top=2).set_axis(requests).to_string())
