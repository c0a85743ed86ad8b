import io
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from filelock import FileLock

from cosmo._core.parallel import Workers
from cosmo.data import DataError, load_glyphs
from cosmo.encoders import Encoder, ItemError
from cosmo.io import predict as predict_module
from cosmo.io.model import Model, fit_model
from cosmo.io.predict import predict_file
from cosmo.io.writers import _cuts

SIZE = 16
NAMES = [f"f{k}" for k in range(30)]


@pytest.fixture(scope="module")
def rows():
    glyphs = load_glyphs(n_classes=24, samples_per_class=12)
    return pd.DataFrame(glyphs.features[:, :30], columns=NAMES)


@pytest.fixture(scope="module")
def model(rows):
    glyphs = load_glyphs(n_classes=24, samples_per_class=12)
    train = glyphs.split.trainval
    return fit_model(rows.iloc[train], glyphs.labels[train], glyphs.descriptions)


@pytest.fixture
def source(tmp_path, rows):
    """100 rows: six batches of 16 and one of 4."""
    path = tmp_path / "new.npy"
    np.save(path, rows[:100].to_numpy())
    return path


class Letters(Encoder):
    """Counts letters; cannot read texts with a question mark."""

    name, kind, n_features, identity, describes = "letters", "text", 26, "letters-1", True

    def content(self, item):
        return str(item).encode()

    def read(self, item):
        if "?" in item or not item:
            raise ItemError(f"{item!r} is unclear")
        return [item.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"]

    def encode_batch(self, batch):
        return np.array(batch, dtype=np.float32)

    def encode_descriptions(self, texts):
        return self.encode(texts)


@pytest.fixture(scope="module")
def words():
    rng = np.random.default_rng(0)
    classes = {"a": "aaa", "b": "bbb", "c": "ccc", "d": "ddd", "e": "eee", "=f": "fff"}
    letters = [str(text)[0] for text in list(classes.values())[:5]]
    texts = [letter * 3 + "".join(rng.choice(list("xyz"), 2)) for letter in letters * 12]
    return fit_model(texts, list("abcde") * 12, classes, encoder=Letters())


def predict(model, source, output, **options):
    return predict_file(model, source, output, **{"batch_size": SIZE, **options})


class TestResult:
    @pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "jsonl", "json", "parquet", "npy", "npz"])
    def test_is_what_the_model_says_whatever_the_input(self, model, rows, tmp_path, suffix):
        few = rows[:40]
        path = tmp_path / f"new.{suffix}"
        if suffix.startswith("csv"):
            few.to_csv(path, index=False)
        elif suffix == "tsv":
            few.to_csv(path, index=False, sep="\t")
        elif suffix.startswith("json"):
            few.to_json(path, orient="records", lines=suffix == "jsonl", double_precision=15)
        elif suffix == "parquet":
            few.to_parquet(path, row_group_size=7)
        elif suffix == "npy":
            np.save(path, few.to_numpy())
        else:
            np.savez_compressed(path, X=few.to_numpy())
        out = tmp_path / "out.csv"
        assert predict(model, path, out).rows == 40
        result, expected = pd.read_csv(out, keep_default_na=False), model.predict_frame(few)
        assert list(result.columns) == ["row", *expected.columns]
        assert result["row"].tolist() == list(range(1, 41))
        for name in expected.columns:
            if name.startswith("label"):
                assert result[name].tolist() == expected[name].tolist()
            else:
                np.testing.assert_allclose(result[name], expected[name], rtol=1e-4, atol=1e-6)

    def test_all_three_files_agree(self, model, source, tmp_path):
        for suffix in ("csv", "jsonl", "parquet"):
            predict(model, source, tmp_path / f"out.{suffix}", top=2)
        csv = pd.read_csv(tmp_path / "out.csv")
        lines = pd.DataFrame(map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines()))
        parquet = pd.read_parquet(tmp_path / "out.parquet")
        assert list(csv.columns) == list(lines.columns) == list(parquet.columns)
        assert csv["label_2"].tolist() == lines["label_2"].tolist() == parquet["label_2"].tolist()
        np.testing.assert_allclose(csv["p_seen"], parquet["p_seen"], rtol=1e-5)
        np.testing.assert_array_equal(csv["probability"], lines["probability"])
        assert parquet["probability"].dtype == np.float32

    def test_open_file_gets_the_same_csv(self, model, source, tmp_path):
        screen = io.StringIO()
        predict(model, source, screen)
        predict(model, source, tmp_path / "out.csv")
        assert screen.getvalue() == (tmp_path / "out.csv").read_text()

    def test_kept_columns(self, model, rows, tmp_path):
        few = rows[:40].assign(id=[f"{k:03}" for k in range(40)], label="truth")
        few.to_csv(tmp_path / "new.csv", index=False)
        predict(model, tmp_path / "new.csv", tmp_path / "out.csv", keep=["id", "label"], top=1)
        result = pd.read_csv(tmp_path / "out.csv", dtype=str)
        assert list(result.columns) == ["id", "input_label", "label", "probability", "p_seen"]
        assert result["id"].tolist() == few["id"].tolist()
        assert set(result["input_label"]) == {"truth"}

    def test_parquet_keeps_types(self, model, rows, tmp_path):
        ids = pd.array([None] * 20 + list(range(20)), dtype="Int64")  # no number in the first part
        rows[:40].assign(id=ids).to_parquet(tmp_path / "new.parquet")
        predict(model, tmp_path / "new.parquet", tmp_path / "out.parquet", keep=["id"])
        result = pd.read_parquet(tmp_path / "out.parquet", dtype_backend="numpy_nullable")
        assert result["id"].dtype == "Int64"
        assert result["id"].dropna().tolist() == list(range(20))


class Killed(BaseException):
    pass


class TestInterruption:
    @pytest.fixture
    def expected(self, model, source, tmp_path):
        (tmp_path / "whole").mkdir()
        predict(model, source, tmp_path / "whole" / "out.parquet")
        return (tmp_path / "whole" / "out.parquet").read_bytes()

    @pytest.mark.parametrize("after", [False, True])
    def test_at_any_change_on_disk(self, model, source, tmp_path, expected, monkeypatch, after):
        out, replace, predicted = tmp_path / "out.parquet", os.replace, []
        original = Model.predict_frame

        def counted(self, items, top=3):
            predicted.append(len(items))
            return original(self, items, top)

        monkeypatch.setattr(Model, "predict_frame", counted)
        for deadly in range(9):  # manifest, seven chunks, the file
            calls = iter(range(100))

            def dies(draft, path, calls=calls, deadly=deadly):
                last = next(calls) == deadly
                if last and not after:
                    raise Killed
                replace(draft, path)
                if last:
                    raise Killed

            predicted.clear()
            monkeypatch.setattr(os, "replace", dies)
            with pytest.raises(Killed):
                predict(model, source, out)
            monkeypatch.setattr(os, "replace", replace)
            assert not out.exists() or out.read_bytes() == expected
            summary = predict(model, source, out)
            assert out.read_bytes() == expected
            assert summary.rows == 100
            # What was on disk is not done again: one batch at most was lost.
            assert sum(predicted) - 100 <= (0 if after else SIZE)
            assert sorted(path.name for path in tmp_path.iterdir()) == ["new.npy", "out.parquet", "whole"]
            out.unlink()


class TestChanges:
    @pytest.fixture
    def stopped(self, model, source, tmp_path, monkeypatch):
        """The sink of a run that was stopped after two parts."""
        original, calls = Model.predict_frame, iter(range(100))

        def dies(self, items, top=3):
            if next(calls) == 2:
                raise Killed
            return original(self, items, top)

        with monkeypatch.context() as patch:
            patch.setattr(Model, "predict_frame", dies)
            with pytest.raises(Killed):
                predict(model, source, tmp_path / "out.csv")
        return tmp_path / "out.csv"

    def test_of_the_input_are_noticed(self, model, source, rows, stopped):
        np.save(source, rows[100:200].to_numpy())
        with pytest.raises(
            DataError, match=r"out.csv.parts has .* differs in input: run again with --restart"
        ):
            predict(model, source, stopped)
        summary = predict(model, source, stopped, restart=True)
        assert (summary.rows, summary.found) == (100, 0)
        assert pd.read_csv(stopped)["label"].tolist() == list(model.predict(rows[100:200]))

    def test_of_the_model_are_noticed(self, model, source, stopped):
        before = model.cosmo.operating_point_
        try:
            model.cosmo.operate_at(threshold=before.threshold + 0.1)
            with pytest.raises(DataError, match="differs in model"):
                predict(model, source, stopped)
        finally:
            model.cosmo.operate_at(threshold=before.threshold)
        assert predict(model, source, stopped).found == 2 * SIZE

    def test_of_options_are_noticed(self, model, source, stopped):
        with pytest.raises(DataError, match="differs in settings"):
            predict(model, source, stopped, top=1)

    @pytest.mark.parametrize("part", [0, 1])
    def test_a_part_that_is_gone_is_predicted_again(self, model, source, stopped, tmp_path, part):
        sorted((tmp_path / "out.csv.parts").glob("*.part"))[part].unlink()
        assert predict(model, source, stopped).found == part * SIZE
        predict(model, source, tmp_path / "whole.csv")
        assert stopped.read_bytes() == (tmp_path / "whole.csv").read_bytes()

    def test_during_the_run_are_noticed(self, model, source, tmp_path, monkeypatch):
        original = Model.predict_frame

        def meddles(self, items, top=3):
            os.utime(source, ns=(1, 1))
            return original(self, items, top)

        monkeypatch.setattr(Model, "predict_frame", meddles)
        with pytest.raises(DataError, match="new.npy: changed while it was read"):
            predict(model, source, tmp_path / "out.csv")

    def test_damaged_manifest(self, model, source, stopped):
        (stopped.parent / "out.csv.parts" / "manifest.json").write_text("{")
        with pytest.raises(DataError, match="manifest.json is damaged"):
            predict(model, source, stopped)

    @pytest.mark.parametrize("restart", [False, True])
    def test_a_folder_of_somebody_else_is_left_alone(self, model, source, tmp_path, restart):
        (tmp_path / "out.csv.parts").mkdir()
        (tmp_path / "out.csv.parts" / "thesis.txt").write_text("dear")
        with pytest.raises(DataError, match="out.csv.parts is not of an earlier run"):
            predict(model, source, tmp_path / "out.csv", restart=restart)
        assert (tmp_path / "out.csv.parts" / "thesis.txt").read_text() == "dear"


class TestTexts:
    def test_unusable_texts_are_named_by_their_row(self, words, tmp_path):
        texts = ["aaax"] * 40
        texts[20], texts[33] = "what?", ""
        pd.DataFrame({"text": texts}).to_csv(tmp_path / "new.csv", index=False)
        with pytest.raises(DataError, match=r"row 21: 'what\?' is unclear"):
            predict(words, tmp_path / "new.csv", tmp_path / "out.csv")

    def test_skipping_leaves_their_rows_out(self, words, tmp_path, caplog):
        lines = [{"text": "bbby", "id": k} for k in range(40)]
        lines[20]["text"] = "what?"
        (tmp_path / "new.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        summary = predict(words, tmp_path / "new.jsonl", tmp_path / "out.jsonl", keep=["id"], on_error="skip")
        found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        assert [line["id"] for line in found] == [k for k in range(40) if k != 20]
        assert (summary.rows, summary.skipped) == (39, 1)
        assert "row 21 is skipped" in caplog.text
        assert "row 4 " not in caplog.text


class TestDoor:
    @pytest.mark.parametrize(
        ("sink", "message"),
        [("out.xls", "name a .csv, .jsonl or .parquet"), ("no/out.csv", "no such folder")],
    )
    def test_sink(self, model, source, tmp_path, sink, message):
        with pytest.raises(DataError, match=message):
            predict(model, source, tmp_path / sink)

    def test_sink_is_not_the_source(self, model, rows, tmp_path):
        rows[:5].to_csv(tmp_path / "new.csv", index=False)
        with pytest.raises(DataError, match="new.csv is the input"):
            predict(model, tmp_path / "new.csv", tmp_path / "new.csv")

    def test_columns_to_keep_that_would_be_called_the_same(self, model, rows, tmp_path):
        rows[:5].assign(label=1, input_label=2).to_csv(tmp_path / "new.csv", index=False)
        with pytest.raises(DataError, match="two columns to keep would both be called input_label"):
            predict(model, tmp_path / "new.csv", tmp_path / "out.csv", keep=["label", "input_label"])

    def test_progress(self, model, source, rows, tmp_path):
        calls = []
        predict(model, source, tmp_path / "out.csv", report=lambda *call: calls.append(call))
        assert calls == [(min(16 * k, 100), 100) for k in range(1, 8)]
        rows[:100].to_csv(tmp_path / "new.csv", index=False)
        predict(model, tmp_path / "new.csv", tmp_path / "out.csv", report=lambda *call: calls.append(call))
        assert calls[-1] == (100, 100)

    def test_another_process_writes_the_same(self, model, source, tmp_path):
        (tmp_path / "out.csv.parts").mkdir()
        with (
            FileLock(tmp_path / "out.csv.parts" / "lock"),
            pytest.raises(DataError, match="another process is writing it"),
        ):
            predict(model, source, tmp_path / "out.csv")
        assert predict(model, source, tmp_path / "out.csv").rows == 100


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class TestPartitions:
    @pytest.fixture
    def home(self, rows, tmp_path):
        """Three partitions of 40 rows, two of them in a subfolder, and other files."""
        home, table = tmp_path / "rows", rows.assign(id=range(len(rows)))
        (home / "day=1").mkdir(parents=True)
        for k, name in enumerate(["a", "day=1/a", "day=1/b"]):
            table[40 * k : 40 * k + 40].to_parquet(home / f"{name}.parquet")
        (home / "_metadata.parquet").write_bytes(b"no table")
        (home / "README").write_text("read me")
        return home

    @pytest.mark.parametrize("format", ["parquet", "csv", "jsonl"])
    def test_each_file_is_that_of_a_single_input(self, model, home, tmp_path, format):
        summary = predict(model, home, tmp_path / "out", format=format, keep=["id"])
        assert (summary.rows, summary.found, summary.skipped) == (120, 0, 0)
        found = contents(tmp_path / "out")
        assert set(found) == {f"{name}.{format}" for name in ("a", "day=1/a", "day=1/b")}
        for name, content in found.items():
            one = tmp_path / f"one.{format}"
            predict(model, (home / name).with_suffix(".parquet"), one, keep=["id"])
            assert one.read_bytes() == content or format == "parquet"
            if format == "parquet":
                pd.testing.assert_frame_equal(pd.read_parquet(one), pd.read_parquet(tmp_path / "out" / name))
        assert not (tmp_path / "out.parts").exists()

    def test_processes_and_patterns_give_the_same(self, model, home, tmp_path, monkeypatch):
        monkeypatch.setitem(predict_module._PROCESS_ROWS, "features", 40)
        predict(model, home, tmp_path / "one")
        predict(model, home, tmp_path / "two", workers=Workers(2))
        assert contents(tmp_path / "one") == contents(tmp_path / "two")
        predict(model, str(home / "day=1" / "*.parquet"), tmp_path / "three")
        assert contents(tmp_path / "three") == {
            Path(name).name: content
            for name, content in contents(tmp_path / "one").items()
            if "day=1" in name
        }

    def test_chunks_of_one_file_are_joined(self, model, rows, tmp_path, monkeypatch):
        rows[:100].to_parquet(tmp_path / "rows.parquet", row_group_size=15)
        predict(model, tmp_path / "rows.parquet", tmp_path / "whole.csv")
        monkeypatch.setitem(predict_module._PROCESS_ROWS, "features", 40)
        predict(model, tmp_path / "rows.parquet", tmp_path / "out", format="csv", batch_size=15)
        parts = sorted((tmp_path / "out").iterdir())
        assert [part.name for part in parts] == [f"rows-0000{k}.csv" for k in range(3)]
        assert [len(pd.read_csv(part)) for part in parts] == [30, 30, 40]
        for workers in (None, Workers(2)):
            predict(model, tmp_path / "rows.parquet", tmp_path / "joined.csv", workers=workers)
            pd.testing.assert_frame_equal(
                pd.read_csv(tmp_path / "joined.csv"), pd.read_csv(tmp_path / "whole.csv")
            )

    @pytest.mark.parametrize(
        ("groups", "rows", "expected"),
        [
            ([], 10, []),
            ([0, 0], 10, []),
            ([4, 4, 4], 8, [(0, 8), (8, 12)]),
            ([20, 3], 8, [(0, 20), (20, 23)]),
            ([50, 3], 8, [(0, 24), (24, 48), (48, 53)]),
            ([3, 20, 3, 3], 8, [(0, 3), (3, 23), (23, 29)]),
        ],
    )
    def test_cuts(self, groups, rows, expected):
        assert list(_cuts(groups, rows, 3 * rows)) == expected

    def test_interrupted_run_continues(self, model, home, tmp_path, monkeypatch):
        path = home / "day=1" / "a.parquet"
        good, state = path.read_bytes(), path.stat()
        frame = pd.read_parquet(path)
        frame.loc[frame.index[3], "f2"] = np.inf
        frame.to_parquet(path)
        with pytest.raises(DataError, match=r"a.parquet: .*row 4"):
            predict(model, home, tmp_path / "out")
        bad, bad_state = path.read_bytes(), path.stat()
        path.write_bytes(good)
        with pytest.raises(DataError, match=r"out.parts has predictions .* differs in input"):
            predict(model, home, tmp_path / "out")
        path.write_bytes(bad)
        os.utime(path, ns=(bad_state.st_atime_ns, bad_state.st_mtime_ns))
        with pytest.raises(DataError, match=r"a.parquet: .*row 4"):
            predict(model, home, tmp_path / "out")
        assert [part.name for part in (tmp_path / "out.parts").glob("*.part")] == ["00000000-40.part"]
        path.write_bytes(good)
        assert state.st_size == path.stat().st_size
        summary = predict(model, home, tmp_path / "out", restart=True)
        assert (summary.rows, summary.found) == (120, 0)

    def test_existing_output(self, model, home, tmp_path):
        (tmp_path / "out").mkdir()
        with pytest.raises(DataError, match="out exists already"):
            predict(model, home, tmp_path / "out")

    @pytest.mark.parametrize("source", ["nothing/*.parquet", "rows/*"])
    def test_no_partitions(self, model, home, tmp_path, source):
        with pytest.raises(DataError, match=r"partitions are files that end in .parquet or .pq"):
            predict(model, str(tmp_path / source), tmp_path / "out")

    def test_damaged_and_empty_tables(self, model, home, rows, tmp_path):
        (home / "c.parquet").write_bytes(b"PAR1 and no more")
        with pytest.raises(DataError, match=r"c.parquet: damaged, cut short"):
            predict(model, home, tmp_path / "out")
        (tmp_path / "none").mkdir()
        rows[:0].to_parquet(tmp_path / "none" / "a.parquet")
        with pytest.raises(DataError, match="no rows"):
            predict(model, tmp_path / "none", tmp_path / "out.csv")

    def test_two_files_with_one_name(self, model, home, tmp_path):
        (home / "a.pq").write_bytes((home / "a.parquet").read_bytes())
        with pytest.raises(DataError, match=r"two chunks would both go to a.parquet"):
            predict(model, home, tmp_path / "out")
