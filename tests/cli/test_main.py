from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import cosmo
import cosmo.cli
from cosmo.cli import main
from cosmo.data import GZSLDataset, load_glyphs, write_xlsa17

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": ""}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small data set in xlsa17 layout."""
    path = tmp_path_factory.mktemp("main") / "small"
    glyphs = load_glyphs(n_classes=24, samples_per_class=12)
    features = glyphs.features[:, ::6]
    write_xlsa17(GZSLDataset(features, glyphs.labels, glyphs.descriptions, glyphs.split), path)
    return path


@pytest.fixture
def run_command() -> ModuleType:
    import cosmo.cli.run

    return cosmo.cli.run


def status(argv: list[str]) -> int | str | None:
    """The exit status, however it is announced."""
    try:
        return main(argv)
    except SystemExit as stop:
        return stop.code


class TestManual:
    def test_help_is_a_manual_page(self, capsys: pytest.CaptureFixture[str]):
        assert status(["--help"]) == 0
        page = capsys.readouterr().out
        assert re.search(r"^commands:\n  run +\w", page, re.MULTILINE)
        examples = page.split("examples:")[1].split("exit status:")[0]
        assert len(re.findall(r"^  cosmo run", examples, re.MULTILINE)) >= 3
        exits = page.split("exit status:")[1]
        for code in ("0 done", "1 a bug", "2 wrong input", "130 stopped"):
            assert code in exits

    def test_every_command_is_listed_and_has_help_of_its_own(self, capsys: pytest.CaptureFixture[str]):
        status(["--help"])
        page = capsys.readouterr().out
        assert cosmo.cli.COMMANDS
        for name, text in cosmo.cli.COMMANDS.items():
            assert re.search(rf"^  {name} +{re.escape(text)}$", page, re.MULTILINE)
            assert status([name, "--help"]) == 0
            assert capsys.readouterr().out.startswith(f"usage: cosmo {name} ")

    def test_help_of_run_names_what_there_is_to_choose(self, capsys: pytest.CaptureFixture[str]):
        status(["run", "--help"])
        page = capsys.readouterr().out
        for word in ("eszsl", "dap", "logistic", "lda", "knn", "confidence-auto", "max-softmax", "adaptive"):
            assert re.search(rf"\b{word}\b", page), word
        for file in ("results.json", "curves.csv", "plane.png", "report.html"):
            assert file in page
        assert "  cosmo run --repeats" in page

    def test_version(self, capsys: pytest.CaptureFixture[str]):
        assert status(["--version"]) == 0
        assert capsys.readouterr().out == f"cosmo {cosmo.__version__}\n"

    def test_no_arguments_is_a_question(self, capsys: pytest.CaptureFixture[str]):
        assert main([]) == 2
        output = capsys.readouterr()
        assert "commands:" in output.out + output.err

    def test_arguments_of_the_process_are_the_default(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ):
        monkeypatch.setattr(sys, "argv", ["cosmo", "--version"])
        with pytest.raises(SystemExit):
            main()
        assert capsys.readouterr().out == f"cosmo {cosmo.__version__}\n"

    @pytest.mark.parametrize("argv", [["runn"], ["--wrong"], ["run", "--wrong"], ["run", "a", "b"]])
    def test_unknown_command_or_option(self, argv: list[str], capsys: pytest.CaptureFixture[str]):
        assert status(argv) == 2
        output = capsys.readouterr()
        assert output.out == ""
        assert "error:" in output.err
        assert "Traceback" not in output.err

    def test_the_wrong_word_is_named(self, capsys: pytest.CaptureFixture[str]):
        status(["runn"])
        assert "'runn'" in capsys.readouterr().err
        status(["run", "--wrong"])
        assert "--wrong" in capsys.readouterr().err


HEAVY = ("numpy", "scipy", "sklearn", "matplotlib", "pandas", "h5py", "PIL", "rich", "jinja2")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_help_does_not_wait_for_libraries(arguments: list[str]):
    script = (
        "import sys\nfrom cosmo.cli import main\n"
        f"try: main({arguments})\nexcept SystemExit: pass\n"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip()
    assert done.stderr.strip() == "[]"


def test_module_can_be_run():
    done = subprocess.run([sys.executable, "-m", "cosmo.cli"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "commands:" in done.stdout + done.stderr


class TestInterrupt:
    def check(self, capsys: pytest.CaptureFixture[str]) -> None:
        output = capsys.readouterr()
        assert "Traceback" not in output.err
        assert "stopped" in output.err.splitlines()[-1]
        assert output.out == ""

    def test_while_it_works(
        self,
        run_command: ModuleType,
        folder: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ):
        def interrupted(*_args: object, **_options: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(run_command, "run_experiment", interrupted)
        assert main(["run", str(folder), "--out", str(tmp_path / "out")]) == 130
        self.check(capsys)
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []

    def test_while_it_writes(
        self,
        folder: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ):
        def interrupted(*_args: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("cosmo.viz.report.os.replace", interrupted)
        assert main(["run", str(folder), "--out", str(tmp_path / "out")]) == 130
        self.check(capsys)
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []

    def test_while_libraries_load(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
        # Loading scikit-learn takes seconds: the likeliest moment of all for Ctrl-C.
        def interrupted(_name: str) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(cosmo.cli, "import_module", interrupted)
        try:
            code = main(["run"])
        except KeyboardInterrupt:
            pytest.fail("Ctrl-C ends in a traceback")  # left alone it would stop pytest itself
        assert code == 130
        self.check(capsys)

    def test_by_a_signal(self, tmp_path: Path):
        with subprocess.Popen(
            [sys.executable, "-m", "cosmo.cli", "run", "--out", str(tmp_path / "out")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        ) as process:
            assert process.stderr is not None
            assert "loading" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert out == ""
        assert "Traceback" not in err
        assert "stopped" in err
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("options", [["--help"], ["run", "-q"], ["run", "-q", "--json"]], ids=" ".join)
def test_a_reader_that_went_away_is_no_error(options: list[str], folder: Path, tmp_path: Path):
    # What `cosmo ... | head -1` can come to, without the race. PYTHONUNBUFFERED would hide half of it.
    place = [str(folder), "--out", str(tmp_path)] if "run" in options else []
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "cosmo.cli", *options, *place],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
            check=False,
        )
    finally:
        os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 0  # 1 means "a bug (please report it)"


class TestErrors:
    @pytest.mark.parametrize("error", [ValueError("no such thing"), OSError("no such thing")])
    def test_wrong_input_is_one_line(
        self,
        error: Exception,
        run_command: ModuleType,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ):
        def failing(_args: object) -> int:
            raise error

        monkeypatch.setattr(run_command, "run", failing)
        assert main(["run"]) == 2
        assert capsys.readouterr().err == "cosmo run: no such thing\n"

    def test_a_bug_keeps_its_traceback(self, run_command: ModuleType, monkeypatch: pytest.MonkeyPatch):
        def failing(_args: object) -> int:
            raise KeyError("bug")

        monkeypatch.setattr(run_command, "run", failing)
        with pytest.raises(KeyError):
            main(["run"])
