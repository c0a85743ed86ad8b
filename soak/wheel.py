"""Install a wheel into an empty environment and run all starters there, as a new user would.

    python -m soak.wheel dist/cosmo_gzsl-*.whl

The network is needed, or pip's cache. First without extras: the features starter works, and `cosmo check` of
the others names what is missing. Then that command is run as it stands, and the other starters work, too.
"""

import re
import shlex
import subprocess
import sys
import tempfile
import venv
from pathlib import Path


def run(words: list[str], folder: Path, status: int = 0) -> str:
    """Return the output of a command; fail if its status is another."""
    result = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if result.returncode != status:
        sys.exit(f"{shlex.join(words)}: status {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout + result.stderr


def main() -> None:
    """Install the wheel and run the starters."""
    (wheel,) = (Path(name).resolve() for name in sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        venv.create(home / "env", with_pip=True)
        python, cosmo = (str(home / "env" / "bin" / one) for one in ("python", "cosmo"))
        print(f"pip install {wheel.name}", flush=True)
        run([python, "-m", "pip", "install", "-q", str(wheel)], home)
        for kind in ("features", "text", "images"):
            run([cosmo, "init", kind, "--kind", kind], home)
            if kind != "features":
                command = re.search(r"pip (install .*)", run([cosmo, "check"], home / kind, status=2))
                assert command is not None
                print(command[0], flush=True)
                run([python, "-m", "pip", *shlex.split(command[1])], home)
            run([cosmo, "check"], home / kind)
            run([cosmo, "fit"], home / kind)
            found = re.findall(r"([\d.]+) % correct", run([cosmo, "evaluate", "model.cosmo"], home / kind))
            print(f"{kind}: {found[0]} % on known classes, {found[1]} % on new classes", flush=True)
            if min(map(float, found)) < 80:
                sys.exit(f"{kind}: less than 80 %")


if __name__ == "__main__":
    main()
