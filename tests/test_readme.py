"""The README's example runs as it stands."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_python_example(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), flags=re.DOTALL)
    assert len(example.strip().splitlines()) <= 10
    scope = {}
    exec(compile(example, "README.md", "exec"), scope)
    assert "gate score" in capsys.readouterr().out
    assert "new" in scope["model"].classes_
