"""Audit of what reading a file does, and the verdict on how it ended."""

from __future__ import annotations

import os
import resource
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from soak.tally import LET_IN, LOST, SURVIVED

# Audit events that no reader causes, including those of the libraries below.
_NEVER = (
    "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "subprocess.Popen",
    "socket.connect", "socket.bind", "socket.sendto", "pickle.find_class", "ctypes.dlopen", "os.kill",
    "os.putenv", "os.link", "os.symlink", "webbrowser.open", "urllib.Request",
)  # fmt: skip
_CHANGES = ("os.remove", "os.rmdir", "os.mkdir", "os.rename", "os.truncate", "os.chmod", "shutil.rmtree")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Guard:
    """Run a reader on one file after another, and judge each run.

    Parameters
    ----------
    home, temporary : Path
        Folder of the files, and folder for temporary files of libraries.
    writes : bool
        Whether the reader may write to `home`; nothing may be written elsewhere.
    """

    def __init__(self, home: Path, temporary: Path, *, writes: bool) -> None:
        self._home = os.path.realpath(home)
        self._writable = (os.path.realpath(temporary), *([self._home] if writes else []))
        self._events: list[str] = []
        self._active = False
        sys.addaudithook(self._hook)  # hooks cannot be removed, hence `_active`

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self._active:
            return
        if event in _NEVER:
            self._events.append(f"{event} {args[0] if args else ''}")
        elif event == "exec":
            file = getattr(args[0], "co_filename", "")
            if file.startswith(self._home) or (file == "<string>" and not _importing()):
                self._events.append(f"exec of {file}")
        elif event == "import" and str(args[1] or "").startswith(self._home):
            self._events.append(f"import of {args[1]}")
        elif event == "open":
            flags = args[2]
            if isinstance(flags, int) and flags & _WRITING and not self._may_write(args[0]):
                self._events.append(f"open for writing: {args[0]}")
        elif event in _CHANGES and args and not self._may_write(args[0], args[-1]):
            self._events.append(f"{event} {args[0]}")

    def _may_write(self, path: Any, folder: Any = -1) -> bool:
        """Return whether a path may be written; `folder` is the descriptor it is relative to, if any."""
        if isinstance(path, int) or os.fspath(path) == os.devnull:
            return True
        path = os.fsdecode(path)
        if isinstance(folder, int) and folder > 0 and not os.path.isabs(path):
            path = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), path)
        return os.path.realpath(path).startswith(self._writable)

    def judge(
        self, read: Callable[[], object], names: list[str], trap: Path | None = None
    ) -> tuple[str, str]:
        """Return the outcome of `read` and, if it was not survived, the reason.

        `ValueError` and `OSError` are clean if their message contains one of `names`. `AssertionError` means
        that damage was accepted, and a file `trap` that a program was run.
        """
        outcome, reason = SURVIVED, ""
        self._events.clear()
        self._active = True
        try:
            read()
        except KeyboardInterrupt:
            raise
        except AssertionError as error:
            outcome, reason = LET_IN, str(error) or "accepted"
        except BaseException as error:  # panics of libraries in Rust are not `Exception`
            kind = f"{type(error).__name__} ({_place(error)})"
            if not isinstance(error, ValueError | OSError):
                outcome, reason = LOST, f"{kind}: {error}"
            elif not any(name in str(error) for name in names):
                outcome, reason = LOST, f"{kind} does not name the file: {error}"
        finally:
            self._active = False
        if trap is not None and trap.exists():
            trap.unlink()
            self._events.append("a program was run")
        if self._events:
            outcome, reason = LET_IN, self._events[0]
        return outcome, reason[:200]


def _importing() -> bool:
    """Return whether a module is being imported, which may execute strings of its own."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
    return False


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if f"{os.sep}cosmo{os.sep}" in frame.filename]
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"


def limit_memory(more: int) -> None:
    """Limit this process to `more` bytes beyond what it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    limit = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
