"""`cosmo` itself: help, exit status, interruption, progress."""

import io
import os
import re
import signal
import subprocess
import sys
from importlib import import_module

import pytest

from cosmo import __version__
from cosmo.cli import _SHARED, COMMANDS, _output, main

HEAVY = ("numpy", "scipy", "sklearn", "matplotlib", "pandas", "h5py", "PIL", "rich", "jinja2")


class TestHelp:
    def test_manual(self, cosmo):
        page = cosmo("--help").out
        examples, status = page.split("examples:")[1].split("exit status:")
        assert len(re.findall(r"^  cosmo run", examples, re.MULTILINE)) >= 3
        for code in ("0 ", "1 ", "2 ", "130 "):
            assert code in status
        assert cosmo(status=2).out == page
        assert cosmo("--version").out == f"cosmo {__version__}\n"

    @pytest.mark.parametrize("name", COMMANDS)
    def test_of_a_command(self, name, cosmo):
        assert re.search(rf"^  {name} +{re.escape(COMMANDS[name])}$", cosmo("--help").out, re.M)
        page = cosmo(name, "--help").out
        assert page.startswith(f"usage: cosmo {name} ")
        assert page.count("examples:") == 1
        examples = re.findall(rf"^  cosmo {name}\b(.*)$", page.split("examples:")[1], re.MULTILINE)
        assert examples
        parser = getattr(import_module(f"cosmo.cli.{_SHARED.get(name, name)}"), f"{name}_parser")()
        for line in examples:
            words = re.split(r"  +| \| ", line)[0]
            parser.parse_args([word.strip('"') for word in re.findall(r'"[^"]*"|\S+', words)])

    @pytest.mark.parametrize("words", [["runn"], ["run", "--wrong"], ["run", "a", "b"]])
    def test_unknown_words(self, words, refuse):
        refuse(words, words[-1])

    def test_loads_no_libraries(self):
        script = (
            "import sys\nfrom cosmo.cli import main\n"
            "try: main(['--help'])\nexcept SystemExit: pass\n"
            f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert done.stdout.strip()
        assert done.stderr.strip() == "[]"


class TestInterrupt:
    @pytest.mark.parametrize("place", ["cosmo.cli.import_module", "os.replace"])
    def test_leaves_no_files(self, place, benchmark, tmp_path, monkeypatch, capsys):
        def interrupted(*_args):
            raise KeyboardInterrupt

        monkeypatch.setattr(place, interrupted)
        try:
            assert main(["run", str(benchmark), "--out", str(tmp_path / "out")]) == 130
        except KeyboardInterrupt:
            pytest.fail("Ctrl-C ends in a traceback")  # which would stop pytest itself
        output = capsys.readouterr()
        assert "Traceback" not in output.err
        assert output.err.splitlines()[-1].startswith("cosmo: stopped")
        assert output.out == ""
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []

    def test_by_a_signal(self, start, tmp_path):
        with start("run", "--out", "out", folder=tmp_path) as process:
            assert "loading" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert out == ""
        assert "Traceback" not in err
        assert "stopped" in err
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("words", [["--help"], ["show", "model.cosmo", "--json"]])
def test_a_closed_pipe_is_no_error(words, start, trained):
    # As in `cosmo ... | head -1`, without the race. PYTHONUNBUFFERED would hide half of it.
    reader, writer = os.pipe()
    os.close(reader)
    try:
        process = start(*words, folder=trained, stdout=writer)
        _, err = process.communicate(timeout=60)
    finally:
        os.close(writer)
    assert err == ""
    assert process.returncode == 0


class TestErrors:
    @pytest.mark.parametrize("error", [ValueError("no such thing"), OSError("no such thing")])
    def test_wrong_input_is_one_line(self, error, monkeypatch, capsys):
        def failing(_args):
            raise error

        monkeypatch.setattr("cosmo.cli.run.run_run", failing)
        assert main(["run"]) == 2
        assert capsys.readouterr().err == "cosmo run: no such thing\n"

    def test_a_bug_keeps_its_traceback(self, monkeypatch):
        def failing(_args):
            raise KeyError("bug")

        monkeypatch.setattr("cosmo.cli.run.run_run", failing)
        with pytest.raises(KeyError):
            main(["run"])


class Terminal(io.StringIO):
    def isatty(self):
        return True


class TestProgress:
    def test_bar_with_count_and_remaining_time_on_a_terminal(self, monkeypatch):
        stderr = Terminal()
        monkeypatch.setattr(sys, "stderr", stderr)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "100")
        with _output.progress(quiet=False) as step:
            step("encoding [texts]")
            step.report(1, 3)
            step.note("a line")
            step.report(3, 3)
            step("writing")
        text = stderr.getvalue()
        assert re.search(r"encoding \[texts\].*1/3\S* \S*0:00:0\d", text)
        assert re.search(r"s  a line", text)
        assert re.search(r"s  writing", text)

    def test_occasional_lines_elsewhere(self, monkeypatch, capsys):
        with _output.progress(quiet=False) as step:
            step("encoding")
            step.report(1, 3)
            monkeypatch.setattr(_output, "_SECONDS_BETWEEN_LINES", 0.0)
            step.report(2, 3)
            step.report(3)
        lines = [line[10:] for line in capsys.readouterr().err.splitlines()]
        assert lines == ["encoding", "2 of 3, about 0 s left", "3"]

    def test_quiet(self, monkeypatch):
        stderr = Terminal()
        monkeypatch.setattr(sys, "stderr", stderr)
        with _output.progress(quiet=True) as step:
            step("encoding")
            step.report(1, 2)
        assert stderr.getvalue() == ""
