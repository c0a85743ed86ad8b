"""A watch over what reading a file does, and the verdict on how it ended."""

from __future__ import annotations

import os
import resource
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from soak.tally import LET_IN, LOST, SURVIVED

__all__ = ["Guard", "limit_memory"]

# What no reader of data does; seen by an audit hook, which also sees what libraries do on our behalf.
_NEVER = (
    "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "subprocess.Popen",
    "socket.connect", "socket.bind", "socket.sendto", "pickle.find_class", "ctypes.dlopen", "os.kill",
    "os.putenv", "os.link", "os.symlink", "webbrowser.open", "urllib.Request",
)  # fmt: skip
_CHANGES = ("os.remove", "os.rmdir", "os.mkdir", "os.rename", "os.truncate", "os.chmod", "shutil.rmtree")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Guard:
    """Runs a reader on one file after another, and judges.

    Parameters
    ----------
    home, aside : Path
        Folder of the trial, and one for what libraries put aside for a moment.
    writes : bool
        Whether the reader may write to `home`; nothing may write anywhere else.

    Examples
    --------
    >>> guard = Guard(Path("/none"), Path("/none"), writes=False)
    >>> guard.judge(lambda: int("seven"), ["seven"])
    ('survived', '')
    >>> guard.judge(lambda: {}["seven"], ["seven"])[0], guard.judge(lambda: os.system("true"), [])[0]
    ('lost', 'let in')
    """

    def __init__(self, home: Path, aside: Path, *, writes: bool) -> None:
        self._home = os.path.realpath(home)
        self._may = (os.path.realpath(aside), *([self._home] if writes else []))
        self._seen: list[str] = []
        self._armed = False
        sys.addaudithook(self._hook)  # which cannot be taken away again: hence `_armed`

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self._armed:
            return
        if event in _NEVER:
            self._seen.append(f"{event} {args[0] if args else ''}")
        elif event == "exec":
            file = getattr(args[0], "co_filename", "")
            if file.startswith(self._home) or (file == "<string>" and not _importing()):
                self._seen.append(f"exec of {file}")
        elif event == "import" and str(args[1] or "").startswith(self._home):
            self._seen.append(f"import of {args[1]}")
        elif event == "open":
            flags = args[2]
            if isinstance(flags, int) and flags & _WRITING and not self._allowed(args[0]):
                self._seen.append(f"open for writing: {args[0]}")
        elif event in _CHANGES and args and not self._allowed(args[0], args[-1]):
            self._seen.append(f"{event} {args[0]}")

    def _allowed(self, path: Any, folder: Any = -1) -> bool:
        """Tell whether a file may be written or removed; `folder` is that of its name, if it is open."""
        if isinstance(path, int) or os.fspath(path) == os.devnull:
            return True
        path = os.fsdecode(path)
        if isinstance(folder, int) and folder > 0 and not os.path.isabs(path):
            path = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), path)
        return os.path.realpath(path).startswith(self._may)

    @contextmanager
    def _watching(self) -> Iterator[None]:
        self._seen.clear()
        self._armed = True
        try:
            yield
        finally:
            self._armed = False

    def judge(
        self, read: Callable[[], object], names: list[str], trap: Path | None = None
    ) -> tuple[str, str]:
        """Return the outcome of reading and, if it was not survived, what happened.

        A reader may raise `ValueError` or `OSError` with a message that has one of `names`, unless what it
        ran into was the limit of the memory. `AssertionError` is how a reader of these
        trials says that damage was let in; so is a file `trap`, if it appears.
        """
        outcome, what = SURVIVED, ""
        try:
            with self._watching():
                read()
        except KeyboardInterrupt:
            raise
        except AssertionError as error:
            outcome, what = LET_IN, str(error) or "accepted"
        except BaseException as error:  # a panic of a library in Rust is no Exception
            if _memory(error):
                outcome, what = LOST, f"memory ({_place(error)}): {error}"
            elif not isinstance(error, ValueError | OSError):
                outcome, what = LOST, f"{type(error).__name__} ({_place(error)}): {error}"
            elif not any(name in str(error) for name in names):
                outcome = LOST
                what = f"{type(error).__name__} ({_place(error)}) does not name the file: {error}"
        if trap is not None and trap.exists():
            trap.unlink()
            self._seen.append("a program was run")
        if self._seen:
            outcome, what = LET_IN, self._seen[0]
        return outcome, what[:200]


def _memory(error: BaseException | None) -> bool:
    """Tell whether an error was one of memory before it was reworded."""
    while error is not None:
        if isinstance(error, MemoryError) or "malloc of size" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _importing() -> bool:
    """Tell whether some module is being imported right now, which may well run text of its own."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
    return False


def _place(error: BaseException | None) -> str:
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    ours = [frame for frame in frames if f"{os.sep}cosmo{os.sep}" in frame.filename]
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"


def limit_memory(more: int) -> None:
    """Let this process have so many bytes beyond what it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    limit = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
