"""What ships with the package and what `gpucf demo` does with it."""

from __future__ import annotations

import builtins
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
import xgboost

from gpucf import _demo, _plot
from gpucf._cli import main

DATA = files("gpucf") / "_data"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Output folder and printed text of one run."""
    import contextlib
    import io

    folder = tmp_path_factory.mktemp("demo")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["demo", "-o", str(folder / "new" / "out")]) == 0
    return folder / "new" / "out", printed.getvalue()


@pytest.fixture(scope="module")
def answered():
    """Engine, table, answers and numbers of the declined."""
    engine, table, _ = _demo.open_engine(_demo.load_people())
    declined = np.flatnonzero(_demo.classes_of(engine, table) != _demo.ACCEPTED)
    return engine, table, engine.query(table.take(declined), **_demo.QUERY), declined


def test_the_shipped_files_are_small_and_whole():
    people = pd.read_csv(DATA / "german.csv")
    assert people.shape == (1000, 10)
    assert people["Accepted"].sum() == 700
    assert people.notna().all(axis=None)
    assert (DATA / "german-model.json").stat().st_size < 200_000
    assert (DATA / "german.csv").stat().st_size < 200_000
    booster = xgboost.Booster(model_file=DATA / "german-model.json")
    assert booster.num_boosted_rounds() == 20
    assert booster.feature_names == _demo.one_hot_columns(_demo.load_people())[0].column_names


def test_every_declined_applicant_is_answered_and_accepted(demo):
    folder, _ = demo
    booster = xgboost.Booster(model_file=DATA / "german-model.json")
    people = pd.read_csv(DATA / "german.csv").drop(columns="Accepted")
    answers = pd.read_csv(folder / "german-counterfactuals.csv").set_index("Applicant")

    def accepted(rows):
        hot = {name: rows[name] for name in rows if name not in _demo.GROUPED}
        for column in booster.feature_names:
            group, sign, word = column.partition("=")
            if sign:
                hot[column] = rows[group] == word
        X = pd.DataFrame(hot)[booster.feature_names].astype(float)
        return booster.predict(xgboost.DMatrix(X)) > 0.5

    assert answers.index.tolist() == np.flatnonzero(~accepted(people)).tolist()
    assert (answers["gpucf_status"] == "optimal").all()
    assert accepted(answers[people.columns]).all()
    before = people.loc[answers.index]
    assert answers["Sex"].equals(before["Sex"])
    assert (answers["Age"] >= before["Age"]).all()
    n_changed = sum((answers[name] != before[name]).astype(int) for name in people)
    assert n_changed.equals(answers["gpucf_changed"])
    assert answers[people.columns].dtypes.equals(people.dtypes)


def test_what_is_printed(demo):
    folder, text = demo
    n = len(pd.read_csv(folder / "german-counterfactuals.csv"))
    assert text.count(": declined; accepted after") == 3
    assert text.count("together") == 3
    for word in ["proved", "rows per second", "median cost", "checked by", "CC BY 4.0", "german-regions.png"]:
        assert word in text
    assert f" {n} " in text


def test_the_printed_costs_add_up(answered):
    result = answered[2]
    for i in range(len(result)):
        changes = result.changes(i)
        assert len(changes) == result.n_changed[i]
        assert sum(c["cost"] for c in changes) == pytest.approx(
            result.cost[i], rel=1e-12
        )  # prices are summed elsewhere
        assert all(c["from"] != c["to"] for c in changes)


def test_the_picture_is_a_picture(demo):
    from matplotlib import image

    picture = image.imread(demo[0] / "german-regions.png")
    assert picture.shape[0] > 600
    assert picture.shape[1] > 900
    assert len(np.unique(picture.reshape(-1, picture.shape[2]), axis=0)) > 20


def test_regions_are_those_of_the_model(answered):
    """Every whole number in sight, asked of XGBoost, has the colour of the cell in which it is drawn."""
    engine, _, result, _ = answered
    pair = _plot._axes_features(engine, result)
    before = result._table.values
    limits = [_plot._limits(before, result._after, column) for column in pair]
    row = before[3]
    yes, edges = _plot._regions(engine, row, pair, limits, _demo.ACCEPTED)
    booster = xgboost.Booster(model_file=DATA / "german-model.json")
    axis = [np.arange(np.ceil(low), np.floor(high) + 1) for low, high in limits]
    axis = [values[:: max(1, len(values) // 200)] for values in axis]
    grid = np.tile(row, (len(axis[0]) * len(axis[1]), 1))
    grid[:, pair[0]] = np.tile(axis[0], len(axis[1]))
    grid[:, pair[1]] = np.repeat(axis[1], len(axis[0]))
    says = booster.predict(xgboost.DMatrix(grid, feature_names=booster.feature_names)) > 0.5
    place = [np.searchsorted(e, values, side="right") - 1 for e, values in zip(edges, axis, strict=True)]
    drawn = yes[np.repeat(place[1], len(axis[0])), np.tile(place[0], len(axis[1]))]
    assert np.array_equal(drawn, says)
    assert 0 < says.sum() < len(says)


def test_the_axes_are_the_two_that_move_together_most(answered):
    engine, _, result, _ = answered
    a, b = _plot._axes_features(engine, result)
    both = len(_plot._moved_both(result, (a, b)))
    assert both > 0
    n = result.changed.shape[1]
    assert both == max(len(_plot._moved_both(result, (i, j))) for i in range(n) for j in range(i + 1, n))
    names = [result._table.names[c] for c in (a, b)]
    assert all("=" not in name for name in names)


def test_without_matplotlib_the_demo_says_so(tmp_path, capsys, monkeypatch):
    real = builtins.__import__

    def without(name, *more, **other):
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *more, **other)

    monkeypatch.setattr(builtins, "__import__", without)
    assert main(["demo", "-o", str(tmp_path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "not drawn, matplotlib is not installed (pip install 'gpucf[plot]')" in said
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "german-counterfactuals.csv", "german-declined.parquet", "german-features.yaml", "german-model.json",
    ]  # fmt: skip


def test_an_output_folder_that_is_a_file(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["demo", "-o", str(tmp_path / "file")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("gpucf: error: cannot write to the folder")
    assert said.count("\n") == 1
