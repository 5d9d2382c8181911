# ruff: noqa: E501 - one wrong call a line, with its message
"""The command line: same answers as the library, whatever the file kind and the batch; clear words for what is wrong."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xgboost

import gpucf
from gpucf import _csv
from gpucf._cli import main
from gpucf._stream import Fingerprint, open_source, partial_path

ADDED = ["gpucf_status", "gpucf_cost", "gpucf_lower_bound", "gpucf_changed"]


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {"id": [f"{i:05d}" for i in range(n)], "age": rng.integers(18, 80, n), "income": rng.normal(3.0, 1.0, n),
         "debt": np.round(rng.exponential(2.0, n), 1)}
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model and the table it was trained on, as files."""
    where = tmp_path_factory.mktemp("cli")
    table = people(300)
    X = table.drop(columns="id")
    y = (X["income"] * 10 + X["age"] / 4 - 6 * X["debt"] > 30).astype(int)
    data = xgboost.DMatrix(X.astype(float), y)
    options = {"max_depth": 2, "seed": 1, "objective": "binary:logistic", "nthread": 1}
    xgboost.train(options, data, num_boost_round=3).save_model(where / "model.json")
    table.to_csv(where / "people.csv", index=False)
    table.to_parquet(where / "people.parquet")
    return where


@pytest.fixture
def query(folder, tmp_path, capsys):
    """Run `gpucf query`; returns exit code, output path, stdout and stderr."""

    def call(*options, table="people.csv", output="out.csv", model="model.json", carry=True):
        out = tmp_path / output
        more = ["--carry", "id"] if carry else []
        code = main(["query", str(folder / model), str(folder / table), "-o", str(out), *more, *map(str, options)])
        said = capsys.readouterr()
        return code, out, said.out, said.err

    return call


def read(path):
    if path.suffix == ".csv":
        return pd.read_csv(path, dtype={"id": str})
    return pq.read_table(path).to_pandas()


@pytest.fixture(scope="module")
def expected(folder):
    """What the library answers."""
    table = people(300)
    engine = gpucf.Engine(folder / "model.json", background=table.drop(columns="id"))
    result = engine.query(table, carry=["id"])
    out = result.counterfactuals.copy()
    for name, column in zip(ADDED, [result.status, result.cost, result.lower_bound, result.n_changed], strict=True):
        out[name] = column
    return out


@pytest.mark.parametrize("table", ["people.csv", "people.parquet"])
@pytest.mark.parametrize("output", ["out.csv", "out.parquet", "out.PQ"])
def test_same_answers_as_the_library(query, folder, expected, table, output):
    code, out, said, error = query("--background", folder / "people.parquet", table=table, output=output)
    assert (code, error) == (0, "")
    assert "300 rows (300 optimal)" in said
    assert "checked by xgboost" in said
    got = read(out.with_suffix(out.suffix.lower()) if out.suffix.lower() == ".csv" else out)
    pd.testing.assert_frame_equal(got, expected, check_exact=True, check_dtype=output != "out.csv")
    if output == "out.csv":
        assert got["age"].dtype == np.int64
        assert got["id"].tolist()[7] == "00007"
    assert [p.name for p in out.parent.iterdir() if "partial" in p.name] == []


@pytest.mark.parametrize("output", ["out.csv", "out.parquet"])
def test_batches_do_not_matter(query, folder, output):
    files = []
    for rows in [1, 7, 100, 65_536]:
        code, out, *_ = query("--background", folder / "people.csv", "--batch-rows", rows, output=output)
        assert code == 0
        files.append(out.read_bytes() if output == "out.csv" else read(out))
    for other in files[1:]:
        assert other == files[0] if output == "out.csv" else other.equals(files[0])


def test_batches_have_their_size(folder):
    for name in ["people.csv", "people.parquet"]:
        source = open_source(folder / name, "table")
        assert [b.num_rows for b in source.batches(128)] == [128, 128, 44]


def test_without_background_dtypes_are_those_of_the_table(query):
    code, out, _, error = query()
    assert code == 0
    assert error == "gpucf: no --background, so that changes are not scaled: each counts in its column's own units\n"
    assert read(out)["age"].dtype == np.int64


def test_quiet(query):
    assert query("--quiet")[2:] == ("", "")


def test_methods_give_the_same_table(query):
    tables = [query("--method", method)[1].read_bytes() for method in ("auto", "map", "search")]
    assert tables[0] == tables[1] == tables[2]


@pytest.mark.parametrize("batch_rows", [300, 64])
def test_limits_leave_rows_open_and_say_so(query, folder, batch_rows):
    code, out, said, _ = query("--node-limit", 2, "--batch-rows", batch_rows)
    assert code == 0
    got = read(out)
    engine = gpucf.Engine(folder / "model.json", background=people(300).drop(columns="id"))
    expected = engine.query(people(300), carry=["id"], scale=None, node_limit=2)
    assert got["gpucf_status"].tolist() == expected.status.tolist()
    assert got["gpucf_lower_bound"].tolist() == expected.lower_bound.tolist()
    counts = got["gpucf_status"].value_counts()
    n_feasible, n_unknown = counts.get("feasible", 0), counts.get("unknown", 0)
    assert n_unknown > 0
    assert f"{n_feasible + n_unknown} rows open: {n_feasible} feasible" in said and f"{n_unknown} unknown (" in said


def test_a_time_limit_is_for_the_whole_table(query, monkeypatch):
    given, answer = [], gpucf.Engine.query

    def noting(self, *arguments, **options):
        given.append(options["time_limit_s"])
        return answer(self, *arguments, **options)

    monkeypatch.setattr(gpucf.Engine, "query", noting)
    code, out, said, _ = query("--time-limit", "1e6", "--batch-rows", 100)
    assert code == 0 and "300 rows (300 optimal)" in said and "A limit left" not in said
    assert given[0] == 1e6 > given[1] > given[2] > 0.0
    assert json.loads((out.parent / "out.csv.meta.json").read_text())["options"]["time_limit_s"] == 1e6


@pytest.mark.parametrize(("options", "message"), [
    (["--node-limit", "0"], "node_limit is 0; give a whole number of at least 1."),
    (["--node-limit", "few"], "--node-limit is 'few'; give a whole number of at least 1."),
    (["--time-limit", "0"], "--time-limit is '0'; give a number of seconds above 0."),
    (["--time-limit", "nan"], "--time-limit is 'nan'; give a number of seconds above 0."),
    (["--time-limit", "soon"], "--time-limit is 'soon'; give a number of seconds above 0."),
    (["--method", "best"], "method is 'best'; give one of 'auto', 'map', 'search'."),
])  # fmt: skip
def test_wrong_limits_and_methods(query, options, message):
    code, out, _, error = query(*options)
    assert code == 1 and message in error and error.count("\n") == 1
    assert not out.exists()


def test_a_map_that_does_not_fit_is_refused_where_it_was_asked_for(query):
    code, out, _, error = query("--method", "map", "--max-regions", 1)
    assert code == 1 and "region" in error and not out.exists()
    assert query("--max-regions", 1)[0] == 0


def test_metadata_of_parquet_and_csv(query, folder):
    options = ["--background", folder / "people.csv", "--target", "1", "--immutable", "age", "--weights", "debt=2.5"]
    _, parquet, *_ = query(*options, output="out.parquet")
    _, table, *_ = query(*options)
    found = json.loads(pq.read_schema(parquet).metadata[b"gpucf"])
    beside = json.loads((table.parent / "out.csv.meta.json").read_text())
    assert beside == {**found, "rows": 300, "complete": True}
    assert found["gpucf_version"] == gpucf.__version__
    for name, file in [("model", "model.json"), ("table", "people.csv"), ("background", "people.csv")]:
        digest = hashlib.sha256((folder / file).read_bytes()).hexdigest()
        assert found[name] == {"file": file, "sha256": digest}
    assert found["options"]["weights"] == {"debt": 2.5}
    assert found["options"]["immutable"] == ["age"]
    digest = hashlib.sha256(json.dumps(found["options"], sort_keys=True).encode()).hexdigest()
    assert found["options_sha256"] == digest
    assert found["verified_by"].startswith("xgboost")
    _, other, *_ = query("--background", folder / "people.csv", output="other.parquet")
    assert json.loads(pq.read_schema(other).metadata[b"gpucf"])["options_sha256"] != digest


def test_options_reach_the_engine(query, folder):
    background = ["--background", folder / "people.csv"]
    before = pd.read_csv(folder / "people.csv")
    after = read(query(*background, "--immutable", "age,debt", "--target", "1")[1])
    assert after["age"].equals(before["age"])
    assert after["debt"].equals(before["debt"])
    after = read(query(*background, "--increase-only", '["age"]', "--decrease-only", "income", "--target", "1")[1])
    assert (after["age"] >= before["age"]).all()
    assert (after["income"] <= before["income"]).all()
    l0 = read(query(*background, "--cost", "l0", "--scale", "std", "--threads", "1")[1])
    assert (l0["gpucf_cost"] == l0["gpucf_changed"]).all()
    sure = read(query(*background, "--target", "probability >= 0.6")[1])
    booster = xgboost.Booster(model_file=folder / "model.json")
    found = sure["gpucf_status"].isin(["optimal", "already"])
    assert found.any()
    p = booster.predict(xgboost.DMatrix(sure[["age", "income", "debt"]].astype(float)[found]))
    assert (p.astype(float) >= 0.6).all()


def test_features_and_weights_from_files(query, folder, tmp_path):
    (tmp_path / "f.json").write_text('{"debt": {"kind": "continuous"}}')
    (tmp_path / "w.json").write_text('{"debt": 3, "age": 0.5}')
    code, out, *_ = query("--features", tmp_path / "f.json", "--weights", tmp_path / "w.json", "--weights", "age=1")
    assert code == 0
    found = json.loads((out.parent / "out.csv.meta.json").read_text())["options"]
    assert found["weights"] == {"debt": 3, "age": 1.0}
    assert found["features"] == {"debt": {"kind": "continuous"}}


@pytest.fixture
def coloured(tmp_path):
    """A model with one-hot columns whose names hold an equals sign."""
    rng = np.random.default_rng(3)
    hot = np.eye(3)[rng.integers(0, 3, 200)]
    X = pd.DataFrame(hot, columns=["C=red", "C=green", "C=blue"]).assign(x=rng.normal(size=200)).astype(float)
    data = xgboost.DMatrix(X, (hot[:, 0] + X["x"] > 0.5).astype(int))
    options = {"max_depth": 2, "seed": 1, "objective": "binary:logistic", "nthread": 1}
    xgboost.train(options, data, num_boost_round=3).save_model(tmp_path / "m.json")
    X.iloc[:, :3] = X.iloc[:, :3].astype(int)
    X.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path


@pytest.mark.parametrize("form", ["C=C=red,C=green,C=blue", '{"C": ["C=red", "C=green", "C=blue"]}', "file"])
def test_one_hot_groups(coloured, form):
    if form == "file":
        form = str(coloured / "groups.json")
        (coloured / "groups.json").write_text('{"C": ["C=red", "C=green", "C=blue"]}')
    base = ["query", str(coloured / "m.json"), str(coloured / "t.csv"), "-o", str(coloured / "o.csv"), "--quiet"]
    assert main([*base, "--one-hot", form, "--weights", "C=0.1"]) == 0
    out = pd.read_csv(coloured / "o.csv")
    assert (out[["C=red", "C=green", "C=blue"]].sum(axis=1) == 1).all()
    assert (out["gpucf_changed"] <= 2).all()


def test_numbers_survive_csv_bit_for_bit(tmp_path):
    values = np.array([0.1, 1 / 3, 5e-324, -0.0, 1e22, 1.7976931348623157e308, 123456789.0, 2.0**53, 1e16])
    table = pa.table(
        {"wide": values, "narrow": values.clip(-1e38, 1e38).astype(np.float32), "whole": np.arange(9) + 2**53 - 9,
         "text": ['a,b', 'say "x"', "two\nlines", "", "NA", " pad ", "é", "'", "x\ry"],
         "gap": pa.array([1.5, None] * 4 + [3.0]), "yes": pa.array([True, False, None] * 3)}
    )  # fmt: skip
    writer = _csv.CsvWriter(tmp_path / "t.csv", table.schema)
    writer.write(table.slice(0, 4))
    writer.write(table.slice(4, 0))
    writer.write(table.slice(4))
    writer.close()
    back = pd.read_csv(tmp_path / "t.csv", keep_default_na=False, na_values={"gap": ""})
    assert back["wide"].to_numpy().tobytes() == values.tobytes()
    assert back["narrow"].to_numpy().tobytes() == table["narrow"].to_numpy().astype(np.float64).tobytes()
    assert back["whole"].tolist() == table["whole"].to_pylist()
    with open(tmp_path / "t.csv", newline="") as f:
        rows = list(csv.reader(f))
    assert [row[3] for row in rows[1:]] == table["text"].to_pylist()
    assert rows[7][0] == "123456789.0"
    assert rows[2][4] == ""
    schema, batches = _csv.open_csv(tmp_path / "t.csv", {"text": pa.string()})
    arrow = pa.Table.from_batches(batches, schema)
    assert arrow["wide"].to_numpy().tobytes() == values.tobytes()


def test_columns_that_cannot_be_csv(tmp_path):
    table = pa.table({"a": [[1, 2]]})
    writer = _csv.CsvWriter(tmp_path / "t.csv", table.schema)
    with pytest.raises(gpucf.TableError, match=r"column 'a' of type list.* Write Parquet"):
        writer.write(table)
    writer.close()


def write_people(folder, name, change):
    table = people(60)
    change(table)
    table.to_csv(folder / name, index=False)


def test_a_later_block_that_does_not_fit(query, folder, monkeypatch):
    monkeypatch.setattr(_csv, "_BLOCK_BYTES", 400)
    write_people(folder, "late.csv", lambda t: t.__setitem__("age", t["age"].astype(object)))
    lines = (folder / "late.csv").read_text().splitlines()
    parts = lines[50].split(",")
    lines[50] = ",".join([parts[0], "41.5", *parts[2:]])
    (folder / "late.csv").write_text("\n".join(lines) + "\n")
    code, out, _, error = query("--batch-rows", 4, "--quiet", table="late.csv")
    assert code == 1
    assert "late.csv, column 'age': '41.5' is not int64" in error
    assert """--features '{"age": "continuous"}'""" in error
    n = len(read(partial_path(out)))
    assert 0 < n < 50
    assert f"The first {n} rows, finished, are in {partial_path(out)}" in error
    assert error.count("\n") == 1
    code, out, *_ = query("--quiet", "--features", '{"age": "continuous"}', table="late.csv")
    assert code == 0
    assert (out.read_text().splitlines()[1]).split(",")[1].endswith(".0")


def test_a_bad_row_is_counted_in_the_whole_table(query, folder):
    write_people(folder, "inf.csv", lambda t: t.__setitem__("debt", t["debt"].where(t.index != 37, np.inf)))
    code, out, _, error = query("--batch-rows", 10, "--quiet", table="inf.csv")
    assert code == 1
    assert "inf.csv, column 'debt', row 37: inf" in error
    assert len(read(partial_path(out))) == 30
    beside = json.loads((out.parent / "out.partial.csv.meta.json").read_text())
    assert (beside["rows"], beside["complete"]) == (30, False)
    assert not out.exists()
    code, out, _, error = query("--quiet", table="inf.csv", output="none.parquet")
    assert code == 1
    assert "Nothing was written" in error
    assert not partial_path(out).exists()


@pytest.mark.parametrize("name", ["empty.csv", "empty.parquet"])
@pytest.mark.parametrize("output", ["out.csv", "out.parquet"])
def test_a_table_without_rows(query, folder, name, output):
    people(5).head(0).to_csv(folder / "empty.csv", index=False)
    people(5).head(0).to_parquet(folder / "empty.parquet")
    code, out, said, _ = query(table=name, output=output)
    assert code == 0
    assert "0 rows" in said
    assert list(read(out).columns) == ["id", "age", "income", "debt", *ADDED]
    assert len(read(out)) == 0


def test_a_pandas_index_rides_along(query, folder):
    people(30).set_index("id").to_parquet(folder / "indexed.parquet")
    code, out, *_ = query(table="indexed.parquet", output="out.parquet", carry=False)
    assert code == 0
    assert pq.read_table(out).to_pandas().index.tolist() == people(30)["id"].tolist()


def test_missing_numbers_in_the_first_rows(query, folder):
    write_people(folder, "gaps.csv", lambda t: t.__setitem__("debt", np.nan))
    code, out, *_ = query("--quiet", table="gaps.csv")
    assert code == 0
    assert pd.read_csv(out)["debt"].isna().any()


WRONG = {
    "no such model": (["no.json", "people.csv", "-o", "{out}/o.csv"], "cannot read the model file .*no.json: No such file"),
    "no such table": (["model.json", "no.csv", "-o", "{out}/o.csv"], "cannot read the table .*no.csv"),
    "no such background": (["model.json", "people.csv", "-o", "{out}/o.csv", "--background", "no.csv"], "background .*no.csv"),
    "input suffix": (["model.json", "people.xlsx", "-o", "{out}/o.csv"], "people.xlsx has the suffix '.xlsx'; use one of .csv, .parquet"),
    "output suffix": (["model.json", "people.csv", "-o", "{out}/o.txt"], "o.txt has the suffix '.txt'"),
    "output is input": (["model.json", "people.csv", "-o", "people.csv"], "the output would overwrite the table"),
    "partial is input": (["model.json", "x.partial.csv", "-o", "x.csv"], "the output would overwrite the table"),
    "no such folder": (["model.json", "people.csv", "-o", "{out}/no/o.csv"], "there is no folder .*no"),
    "output is a folder": (["model.json", "people.csv", "-o", "{out}/dir.csv"], "it is a folder"),
    "not a model": (["people.csv", "people.csv", "-o", "{out}/o.csv"], "people.csv is not supported"),
    "damaged Parquet": (["model.json", "damaged.parquet", "-o", "{out}/o.csv"], "damaged.parquet cannot be read as Parquet"),
    "ragged CSV": (["model.json", "ragged.csv", "-o", "{out}/o.csv"], "ragged.csv cannot be read as CSV.*Expected 4 columns, got 5"),
    "empty CSV": (["model.json", "nothing.csv", "-o", "{out}/o.csv"], "nothing.csv cannot be read as CSV"),
    "unknown column": (["model.json", "people.csv", "-o", "{out}/o.csv"], "has 'id', which the model does not know.*--carry"),
    "name taken": (["model.json", "taken.csv", "-o", "{out}/o.csv", "--carry", "id"], "already has the column 'gpucf_cost'"),
    "unknown option": (["model.json", "people.csv", "-o", "{out}/o.csv", "--targte", "1"], r"unrecognized arguments.*--help\)"),
    "no output": (["model.json", "people.csv"], "the following arguments are required: -o/--output"),
    "batch rows": (["model.json", "people.csv", "-o", "{out}/o.csv", "--batch-rows", "0"], "--batch-rows is 0"),
    "batch rows text": (["model.json", "people.csv", "-o", "{out}/o.csv", "--batch-rows", "x"], "invalid int value: 'x'"),
    "threads": (["model.json", "people.csv", "-o", "{out}/o.csv", "--carry", "id", "--threads", "0"], "n_threads is 0"),
    "iterations": (["model.json", "people.csv", "-o", "{out}/o.csv", "--iterations", "many"], "--iterations is 'many'"),
    "no iterations": (["model.json", "people.csv", "-o", "{out}/o.csv", "--iterations", "0"], "iterations is 0"),
    "target": (["model.json", "people.csv", "-o", "{out}/o.csv", "--carry", "id", "--target", "yes"], "target 'yes' is not a class"),
    "probability": (["model.json", "people.csv", "-o", "{out}/o.csv", "--carry", "id", "--target", "probability >= 2"], "probability is 2.0"),
    "cost": (["model.json", "people.csv", "-o", "{out}/o.csv", "--carry", "id", "--cost", "l3"], "cost"),
    "scale": (["model.json", "people.csv", "-o", "{out}/o.csv", "--scale", "std"], "--scale std needs --background"),
    "weights": (["model.json", "people.csv", "-o", "{out}/o.csv", "--weights", "age:2"], "--weights has 'age:2'; give name=number"),
    "weights text": (["model.json", "people.csv", "-o", "{out}/o.csv", "--weights", '{"age": "2"}'], "--weights gives 'age' the weight '2'"),
    "negative weight": (["model.json", "people.csv", "-o", "{out}/o.csv", "--carry", "id", "--weights", "age=-1"], "weight"),
    "unknown weight": (["model.json", "people.csv", "-o", "{out}/o.csv", "--carry", "id", "--weights", "agee=1"], "'agee'"),
    "immutable": (["model.json", "people.csv", "-o", "{out}/o.csv", "--carry", "id", "--immutable", "agee"], "'agee'"),
    "names JSON": (["model.json", "people.csv", "-o", "{out}/o.csv", "--immutable", "[1]"], "give a JSON list of names"),
    "broken JSON": (["model.json", "people.csv", "-o", "{out}/o.csv", "--features", '{"age"'], "--features is not valid JSON"),
    "features": (["model.json", "people.csv", "-o", "{out}/o.csv", "--features", "age"], "--features is 'age'; give a .yaml or .json file, or JSON"),
    "features file": (["model.json", "people.csv", "-o", "{out}/o.csv", "--features", "no.json"], "cannot read the file of --features"),
    "one-hot": (["model.json", "people.csv", "-o", "{out}/o.csv", "--one-hot", "age"], "--one-hot is 'age'; give GROUP="),
    "one-hot JSON": (["model.json", "people.csv", "-o", "{out}/o.csv", "--one-hot", '{"G": 1}'], "--one-hot gives 'G' the columns 1"),
    "one-hot columns": (["model.json", "people.csv", "-o", "{out}/o.csv", "--carry", "id", "--one-hot", "G=age,incme"], "'incme'"),
    "a JSON list": (["model.json", "people.csv", "-o", "{out}/o.csv", "--features", "list.json"], "holds a JSON list; give a JSON object"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name, folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "damaged.parquet").write_bytes(b"PAR1" + b"\0" * 40)
    (folder / "ragged.csv").write_text("id,age,income,debt\na,1,2,3\nb,1,2,3,4\n")
    (folder / "nothing.csv").write_text("")
    (folder / "x.partial.csv").write_text("a\n1\n")
    (folder / "people.xlsx").write_text("")
    (folder / "list.json").write_text("[1]")
    people(5).assign(gpucf_cost=1.0).to_csv(folder / "taken.csv", index=False)
    (tmp_path / "dir.csv").mkdir()
    before = sorted(folder.iterdir())
    arguments, message = WRONG[name]
    code = main(["query", *(a.format(out=tmp_path) if "{out}" in a else a for a in arguments)])
    said = capsys.readouterr()
    assert code == 1
    assert said.out == ""
    assert said.err.startswith("gpucf")
    assert said.err.count("\n") == 1
    assert re.search(message, said.err), said.err
    assert "Traceback" not in said.err
    assert sorted(folder.iterdir()) == before
    assert [p.name for p in tmp_path.iterdir()] == ["dir.csv"]


def test_a_full_disk_is_one_line(query, monkeypatch):
    def full(self, table):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_csv.CsvWriter, "write", full)
    code, out, _, error = query("--quiet")
    assert code == 1
    assert "No space left on device" in error
    assert error.count("\n") == 1
    assert not out.exists()


# `python -m gpucf`, with Ctrl-C as in a terminal: what a shell starts in the background inherits that it is ignored.
WITH_CTRL_C = (
    "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "runpy.run_module('gpucf', run_name='__main__', alter_sys=True)"
)


def start(folder, out, *options, **more):
    command = [sys.executable, "-c", WITH_CTRL_C, "query", "model.json", "many.parquet", "-o", str(out)]
    command += ["--carry", "id"]
    return subprocess.Popen([*command, *options], cwd=folder, stdout=subprocess.PIPE, text=True, **more)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_ctrl_c_leaves_a_valid_partial_file(folder, tmp_path, suffix):
    many = people(40_000, seed=5)
    many.to_parquet(folder / "many.parquet")
    out = tmp_path / f"out.{suffix}"
    running = start(folder, out, "--batch-rows", "20", "--quiet", stderr=subprocess.PIPE)
    deadline = time.monotonic() + 300
    while not (partial_path(out).exists() and partial_path(out).stat().st_size > 5_000):
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    _, error = running.communicate(timeout=120)
    assert running.returncode == 130, error
    got = read(partial_path(out))
    assert 0 < len(got) < len(many)
    assert len(got) % 20 == 0
    assert error == f"gpucf: interrupted; the first {len(got):,} rows, finished, are in {partial_path(out)}\n"
    assert not out.exists()
    head = tmp_path / f"head.{suffix}"
    many.head(len(got)).to_parquet(tmp_path / "head-in.parquet")
    arguments = ["query", folder / "model.json", tmp_path / "head-in.parquet", "-o", head, "--carry", "id", "--quiet"]
    assert main([str(a) for a in arguments]) == 0
    pd.testing.assert_frame_equal(got, read(head), check_exact=True)
    if suffix == "csv":
        assert json.loads((tmp_path / "out.partial.csv.meta.json").read_text())["complete"] is False


def test_progress_on_a_terminal_and_nowhere_else(folder, tmp_path):
    people(3_000, seed=5).to_parquet(folder / "many.parquet")
    ours, theirs = pty.openpty()
    running = start(
        folder, tmp_path / "o.csv", "--batch-rows", "100", stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65_536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(ours)
    running.communicate()
    assert running.returncode == 0
    assert b"/3000" in seen
    assert b"rows/s" in seen
    assert b"left" in seen


def test_a_fingerprint_is_that_of_the_file(tmp_path):
    (tmp_path / "f").write_bytes(b"a\nb\n" * 1_000_000)
    found = Fingerprint.of(tmp_path / "f", "table")
    assert found.sha256 == hashlib.sha256(b"a\nb\n" * 1_000_000).hexdigest()
    assert found.n_lines == 2_000_000


def test_version_help_and_no_command(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"gpucf {gpucf.__version__}\n"
    assert main(["query", "--help"]) == 0
    assert "gpucf_lower_bound" in capsys.readouterr().out
    assert main([]) == 1
    assert "required: COMMAND" in capsys.readouterr().err


def test_help_loads_nothing_heavy():
    heavy = ["numba", "pandas", "pyarrow", "matplotlib", "rich", "xgboost"]
    code = (
        "import sys, json; from gpucf._cli import main; main(['--help']); main(['query', '--help']); "
        f"print(json.dumps([m for m in {heavy} if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_info(capsys, monkeypatch):
    assert main(["info"]) == 0
    said = capsys.readouterr().out
    assert gpucf.__version__ in said
    assert f"numba          {pytest.importorskip('numba').__version__}" in said
    assert "CUDA           not used:" in said
    assert "machine code" in said
    from importlib.metadata import PackageNotFoundError

    from gpucf import _info

    def nothing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(_info, "version", nothing)
    assert main(["info"]) == 0
    said = capsys.readouterr().out
    assert "matplotlib     not installed (pictures: pip install 'gpucf[plot]')" in said
    assert "numba          not found: reinstall gpucf" in said
