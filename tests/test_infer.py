"""A first draft of the features: what it rests on, that it is the same each time, and that files bring it back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.ensemble import RandomForestClassifier

import gpucf
from gpucf import OptionError, TableError
from gpucf._cli import main
from gpucf._features_file import yaml_text


def people(n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    job, colour = rng.integers(0, 3, n), rng.integers(0, 3, n)
    frame = pd.DataFrame({
        "age": rng.integers(18, 80, n), "income": rng.integers(10, 90, n) * 500.0, "rate": rng.integers(0, 99, n) / 10,
        "score": rng.normal(size=n), "owner": rng.integers(0, 2, n).astype(bool), "town": rng.choice(["x", "y"], n),
    })  # fmt: skip
    for k, name in enumerate(["clerk", "self_employed", "none"]):
        frame[f"job={name}"] = (job == k).astype(int)
    for k, name in enumerate(["red", "blue"]):
        frame[f"car_{name}"] = (colour == k).astype(float)
    frame["has_car"], frame["has_dog"] = rng.integers(0, 2, n), rng.integers(0, 2, n)
    frame.loc[[3, 5], "rate"] = np.nan
    return frame


EXPECTED = {
    "age": {"kind": "integer"},
    "income": {"kind": "integer", "step": 100},
    "rate": {"kind": "continuous", "step": 0.1},
    "score": {"kind": "continuous"},
    "owner": {"kind": "binary"},
    "town": {"kind": "categorical"},
    "job": {"one_hot": ["job=clerk", "job=self_employed", "job=none"]},
    "car": {"one_hot": ["car_red", "car_blue"], "reference": "none of these"},
    "has_car": {"kind": "binary"},
    "has_dog": {"kind": "binary"},
}


@pytest.mark.parametrize("to", ["pandas", "polars", "pyarrow"])
def test_what_a_table_shows(to: str) -> None:
    frame: Any = people()
    frame = {"pandas": frame, "polars": pl.from_pandas(frame), "pyarrow": pa.Table.from_pandas(frame)}[to]
    found = gpucf.infer_features(frame)
    assert found.given == EXPECTED
    assert found.notes["income"][-1].startswith("all") and "multiples of 100" in found.notes["income"][-1]
    assert "at most 1 decimal seen" in found.notes["rate"][-1] and "missing in 2 of 120" in found.notes["rate"][0]
    assert found.notes["age"][0].startswith("seen: ") and "as a limit it would be range: [" in found.notes["age"][0]
    assert "no step" in found.notes["score"][-1]
    assert (
        "exactly one of 3 columns" in found.notes["job"][0]
        and "left out" in found.notes["car"][0] + found.notes["car"][1]
    )
    assert gpucf.infer_features(frame) == found and yaml_text(gpucf.infer_features(frame)) == yaml_text(found)


def test_float32_decimals_and_arrays() -> None:
    frame = pd.DataFrame({"a": np.array([0.1, 0.25, 1.5], np.float32), "b": [1e-9, 2.0, 3.0], "c": [np.nan] * 3})
    found = gpucf.infer_features(frame)
    assert found.given == {
        "a": {"kind": "continuous", "step": 0.01},
        "b": {"kind": "continuous"},
        "c": {"kind": "continuous"},
    }
    with pytest.raises(TableError, match="without column names"):
        gpucf.infer_features(np.zeros((2, 2)))


@pytest.mark.parametrize("suffix", ["json", "yaml", "yml"])
def test_files_bring_back_what_was_written(suffix: str, tmp_path: Any) -> None:
    if suffix != "json":
        pytest.importorskip("yaml")
    odd = {
        "no": {"range": [None, 3.0], "immutable": True},
        "a b: #c": {"step": 1e-7, "origin": -0.5},
        "3": {"values": [1, 2.5, -1e300]},
        "ä": {"kind": "ordinal", "levels": [1, 2]},
        "true": {"fixed": 0.0},
        "g": {
            "one_hot": ["g=yes", "g=no", "on"],
            "prices": {"g=yes": {"g=no": None, "on": 0.5}},
            "forbidden": [["on", "g=no"]],
        },
        "m": {"missing": {"leave": {"to": [1.0, 2.0], "price": 0.5}, "enter": 1.0}},
        "t": {"table": [[0, 0.0], [1, 2.5]]},
        "empty": {},
    }
    for given in (odd, gpucf.infer_features(people()).given):
        path = tmp_path / f"features.{suffix}"
        gpucf.Features(given).to_file(path)
        assert gpucf.Features.from_file(path) == gpucf.Features(given)
        assert gpucf.Features.from_file(path).entries == gpucf.Features(given).entries


def test_files_that_cannot_be_read_are_refused(tmp_path: Any) -> None:
    with pytest.raises(OptionError, match="cannot read the features file"):
        gpucf.Features.from_file(tmp_path / "none.json")
    with pytest.raises(OptionError, match=r"neither \.yaml, \.yml nor \.json"):
        gpucf.Features.from_file(tmp_path / "features.toml")
    for text, message in [('{"a": 1, "a": 2}', "'a' twice"), ("[1]", "holds a list"), ("{", "not valid JSON")]:
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(OptionError, match=message):
            gpucf.Features.from_file(tmp_path / "bad.json")
    with pytest.raises(OptionError, match="cannot be written"):
        gpucf.Features({"a": {"table": lambda v: v}}).to_file(tmp_path / "x.json")


def test_yaml_is_read_as_people_expect(tmp_path: Any) -> None:
    pytest.importorskip("yaml")
    path = tmp_path / "features.yaml"
    path.write_text("# only comments\n")
    assert gpucf.Features.from_file(path) == gpucf.Features()
    path.write_text("job:\n  one_hot: [no, yes, on, 2020-01-01]\nage: {increase_only: true}\n")
    found = gpucf.Features.from_file(path)
    assert found["job"].one_hot == ("no", "yes", "on", "2020-01-01") and found["age"].increase_only
    for text, message in [("a: 1\na: 2", "'a' twice"), ("a: [", "not valid YAML"), ("- a", "holds a list")]:
        path.write_text(text)
        with pytest.raises(OptionError, match=message):
            gpucf.Features.from_file(path)


def test_the_command_line_from_table_to_answers(tmp_path: Any, capsys: Any) -> None:
    """`gpucf features TABLE > features.yaml`, an edit by hand, and `gpucf query --features`."""
    pytest.importorskip("yaml")
    import joblib

    table = people().drop(columns=["town"]).fillna(0.0)
    X = table.drop(columns="has_dog")
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, X.income + 3000 * X.rate > 40_000)
    at = str(tmp_path / "people.csv")
    joblib.dump(model, tmp_path / "model.pkl")
    opened = [str(tmp_path / "model.pkl"), "--trust-pickle"]
    table.assign(top=60_000).to_csv(at, index=False)
    assert main(["features", at, "--model", *opened]) == 0
    draft = capsys.readouterr().out
    assert "  # at most 1 decimal seen: answers in steps of 0.1\n  kind: continuous\n" in draft
    assert "has_dog" not in draft and main(["features", at]) == 0 and "has_dog" in capsys.readouterr().out
    path, out = tmp_path / "features.yaml", tmp_path / "out.parquet"
    draft = draft.replace("age:\n", "age:\n  increase_only: true\n")
    path.write_text(draft.replace("income:\n", "income:\n  high_from: top\n"))
    options = ["--features", str(path), "--carry", "has_dog", "--target", "True", "--cost", '{"l1": 1, "l0": 0.1}']
    code = main(["query", *opened, at, "-o", str(out), *options, "--background", at, "--batch-rows", "50"])
    assert code == 0, capsys.readouterr().err
    found = pq.read_table(out).to_pandas()
    after, before = found.set_index(found.index), table
    moved = found.gpucf_status == "optimal"
    assert moved.sum() > 10 and (after.age >= before.age).all() and (after.top.astype(float) == 60_000).all()
    assert (after.income[moved & (after.income != before.income)] % 100 == 0).all()
    assert (after.income[after.income != before.income] <= 60_000).all()
    rates = after.rate[after.rate != before.rate]
    assert len(rates) and all(float(f"{rate:.1f}") == rate for rate in rates)
    assert (after[["car_red", "car_blue"]].sum(axis=1) <= 1).all()
    assert model.predict(after[list(X)][moved]).all()
