from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from PIL import Image

import cosmo
from cosmo.curve import SeenUnseenCurve
from cosmo.data import GZSLDataset, load_glyphs
from cosmo.experiment import Experiment, run_experiment
from cosmo.report import write_report

FILES = ["curves.csv", "plane.png", "report.html", "results.json"]
SCRIPT = "<script>alert(1)</script>"
QUOTE = "\" onerror='alert(2)'>"


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    glyphs = load_glyphs(n_classes=24, samples_per_class=12)
    data = GZSLDataset(
        glyphs.features[:, ::6],
        glyphs.labels,
        glyphs.descriptions,
        glyphs.split,
        images=glyphs.images,
        name="small",
    )
    return run_experiment(data)


@pytest.fixture(scope="module")
def folder(experiment: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "deep" / "down"
    write_report(experiment, path)
    return path


def relabelled(data: GZSLDataset, labels: dict[Any, str], **changes: Any) -> GZSLDataset:
    """The same data with other class names."""
    options = {"images": data.images, "name": data.name, **changes}
    return GZSLDataset(
        data.features,
        [labels.get(label, label) for label in data.labels],
        data.descriptions.rename(index=labels),
        data.split,
        **options,
    )


class Page(HTMLParser):
    """Tags with their attributes, the text between them, and the rows of tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.style = ""
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            self.style += data
            return
        self.text += data
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def page(folder: Path) -> Page:
    return Page((folder / "report.html").read_text("utf-8"))


class TestFiles:
    def test_all_four_and_no_drafts(self, folder: Path):
        assert sorted(path.name for path in folder.iterdir()) == FILES

    def test_the_page_is_returned(self, experiment: Experiment, folder: Path):
        assert write_report(experiment, str(folder)) == folder / "report.html"

    def test_results(self, experiment: Experiment, folder: Path):
        assert json.loads((folder / "results.json").read_text("utf-8")) == experiment.to_dict()

    def test_extra_results(self, experiment: Experiment, tmp_path: Path):
        write_report(experiment, tmp_path, extra={"repeats": [1, 2]})
        results = json.loads((tmp_path / "results.json").read_text("utf-8"))
        assert results == {**experiment.to_dict(), "repeats": [1, 2]}

    def test_curves(self, experiment: Experiment, folder: Path):
        with (folder / "curves.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert list(rows[0]) == ["method", "threshold", "acc_ts", "acc_tr", "acc_h"]
        assert list(dict.fromkeys(row["method"] for row in rows)) == [e.name for e in experiment.evaluations]
        for one in experiment.evaluations:
            points = [row for row in rows if row["method"] == one.name]
            for key in ("acc_ts", "acc_tr", "acc_h"):
                written = [float(row[key]) for row in points]
                np.testing.assert_allclose(written, getattr(one.curve, key), atol=1e-6)

    def test_the_threshold_of_a_curve_point_gives_its_accuracies(
        self, experiment: Experiment, tmp_path: Path
    ):
        # Among thousands of samples some flips are this close, and nobody can tell which.
        close = SeenUnseenCurve(
            0.7 + 1e-9 * np.arange(6), [0.5, 0, 0, 0, 0.5, 0], [0, 0.25, 0.25, 0.25, 0, 0]
        )
        evaluations = [*experiment.evaluations[:-1], replace(experiment.evaluations[-1], curve=close)]
        write_report(replace(experiment, evaluations=evaluations), tmp_path)
        with (tmp_path / "curves.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        for one in evaluations:
            points = [row for row in rows if row["method"] == one.name]
            acc_ts, acc_tr, _ = one.curve.sample([float(row["threshold"]) for row in points])
            np.testing.assert_allclose([float(row["acc_ts"]) for row in points], acc_ts, atol=1e-6)
            np.testing.assert_allclose([float(row["acc_tr"]) for row in points], acc_tr, atol=1e-6)

    def test_plane(self, folder: Path):
        with Image.open(folder / "plane.png") as image:
            image.load()
            assert image.format == "PNG"
            assert min(image.size) > 500
            assert len(image.convert("RGB").getcolors(maxcolors=1 << 20)) > 7


class TestPage:
    def test_is_self_contained(self, folder: Path):
        found = page(folder)
        tags = {tag for tag, _ in found.tags}
        assert not tags & {"script", "link", "iframe", "object", "embed", "base", "video", "audio"}
        loading = ("src", "href", "xlink:href", "srcset", "data", "action", "poster", "background")
        for tag, attributes in found.tags:
            for name in loading:
                target = attributes.get(name)
                if target is not None:
                    assert target.startswith(("#", "data:")), (tag, name, target)
            for name, value in attributes.items():
                assert not name.startswith("on"), (tag, name)
                for address in re.findall(r"url\((.*?)\)", value or ""):
                    assert address.strip("'\"").startswith("#")
        assert ":root" in found.style
        assert "@import" not in found.style
        assert "url(" not in found.style

    def test_pictures_are_in_the_page(self, experiment: Experiment, folder: Path):
        images = page(folder).named("img")
        assert len(images) == len(experiment.dataset.unseen_classes)
        assert all(str(image["src"]).startswith("data:image/png;base64,") for image in images)
        assert [image["alt"] for image in images] == [
            f"sample of {label}" for label in experiment.dataset.unseen_classes
        ]

    def test_percentages_are_those_of_the_results(self, experiment: Experiment, folder: Path):
        def percent(*values: float) -> str:
            return " – ".join(f"{100 * value:.1f}" for value in values)

        rows = page(folder).rows
        results = json.loads((folder / "results.json").read_text("utf-8"))
        expected = [
            [
                row["name"],
                percent(row["acc_ts"]),
                percent(row["acc_tr"]),
                percent(row["acc_h"]),
                percent(*row["acc_h_95"]),
                percent(row["ausuc"]),
                percent(*row["ausuc_95"]),
            ]
            for row in results["results"]
        ]
        assert len(expected) == 7
        assert rows[1:8] == expected
        assert [row[1] for row in expected] != [row[2] for row in expected]
        facts = results["facts"]
        assert [row[-1] for row in rows[9:]] == [
            percent(facts[name])
            for name in (
                "seen_expert_accuracy",
                "zsl_t1",
                "gate_auc",
                "gate_fpr95",
                "max_softmax_auc",
                "max_softmax_fpr95",
            )
        ]

    def test_settings_and_version(self, experiment: Experiment, folder: Path):
        found = page(folder)
        assert [
            words for words in ("eszsl", "logistic", "confidence", "adaptive") if words not in found.text
        ] == []
        text = " ".join(found.text.split())
        assert f"Written by cosmo {cosmo.__version__}." in text
        assert "288 samples with 96 features; 17 classes with examples and 7 known only by a" in text
        for name, value in experiment.to_dict()["unseen_expert"].items():
            assert f"{name} {value:.3g}" in text

    def test_the_figure_can_be_read_aloud(self, folder: Path):
        (svg,) = page(folder).named("svg")
        assert svg["role"] == "img"
        assert svg["aria-label"]
        assert page(folder).tags[0] == ("html", {"lang": "en"})

    def test_nothing_is_left_of_the_template(self, folder: Path):
        text = (folder / "report.html").read_text("utf-8")
        assert not re.search(r"\{\{|\}\}|\{%|%\}", text)
        assert text.count("<svg") == text.count("</svg>") == 1
        assert "<?xml" not in text


class TestOddData:
    def test_names_with_html_are_shown_not_obeyed(self, experiment: Experiment, tmp_path: Path):
        data = experiment.dataset
        names = dict(zip(data.unseen_classes, (SCRIPT, QUOTE), strict=False))
        odd = relabelled(data, names, name="<b>bold</b>")
        write_report(replace(experiment, dataset=odd), tmp_path)
        found = page(tmp_path)
        assert found.named("script") == []
        assert found.named("b") == []
        assert SCRIPT not in (tmp_path / "report.html").read_text("utf-8")
        assert {f"sample of {SCRIPT}", f"sample of {QUOTE}"} <= {image["alt"] for image in found.named("img")}
        assert all(set(image) == {"alt", "src"} for image in found.named("img"))
        assert SCRIPT in found.text
        assert "learning on <b>bold</b>" in found.text
        assert json.loads((tmp_path / "results.json").read_text("utf-8"))["dataset"]["name"] == "<b>bold</b>"

    @pytest.mark.parametrize("name", ["100 % in $_$ {x} \\frac", "データ"])
    def test_any_name_can_be_drawn(self, name: str, experiment: Experiment, tmp_path: Path):
        odd = relabelled(experiment.dataset, {}, name=name)
        write_report(replace(experiment, dataset=odd), tmp_path)
        assert json.loads((tmp_path / "results.json").read_text("utf-8"))["dataset"]["name"] == name
        assert name in page(tmp_path).text

    def test_without_pictures(self, experiment: Experiment, tmp_path: Path):
        odd = relabelled(experiment.dataset, {}, images=None)
        write_report(replace(experiment, dataset=odd), tmp_path)
        assert page(tmp_path).named("img") == []
        assert "Some unseen classes" not in page(tmp_path).text

    @pytest.mark.parametrize("kind", ["colour", "one channel", "float"])
    def test_pictures_of_any_kind(self, kind: str, experiment: Experiment, tmp_path: Path):
        grey = np.asarray(experiment.dataset.images)
        images = {
            "colour": np.repeat(grey[..., None], 3, axis=3),
            "one channel": grey[..., None],
            "float": grey.astype(np.float32) / 255,
        }[kind]
        odd = relabelled(experiment.dataset, {}, images=images)
        write_report(replace(experiment, dataset=odd), tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == FILES


class TestWholeOrNotAtAll:
    @pytest.fixture
    def old(self, tmp_path: Path) -> Path:
        for name in FILES:
            (tmp_path / name).write_text(f"old {name}")
        return tmp_path

    def check(self, old: Path, replaced: list[str]) -> None:
        assert sorted(path.name for path in old.iterdir()) == FILES
        for name in FILES:
            content = (old / name).read_bytes()
            assert (content != f"old {name}".encode()) == (name in replaced), name

    def test_moving_fails(self, experiment: Experiment, old: Path, monkeypatch: pytest.MonkeyPatch):
        def failing(*_args: object) -> NoReturn:
            raise OSError("no")

        monkeypatch.setattr("cosmo.report.os.replace", failing)
        with pytest.raises(OSError, match="no"):
            write_report(experiment, old)
        self.check(old, replaced=[])

    @pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
    def test_writing_fails_in_the_middle_of_a_file(
        self, error: BaseException, experiment: Experiment, old: Path, monkeypatch: pytest.MonkeyPatch
    ):
        original = Path.write_bytes

        def failing(self: Path, content: bytes) -> int:
            if "curves.csv" not in self.name:
                return original(self, content)
            original(self, content[: len(content) // 2])
            raise error

        monkeypatch.setattr(Path, "write_bytes", failing)
        with pytest.raises(type(error)):
            write_report(experiment, old)
        self.check(old, replaced=["results.json"])

    def test_old_files_are_replaced(self, experiment: Experiment, old: Path):
        write_report(experiment, old)
        self.check(old, replaced=FILES)
