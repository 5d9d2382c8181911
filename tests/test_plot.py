"""Pictures: the map over two features equals point queries and brute force; every picture draws and says what it "
"shows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sizes
from engine_checks import check_query
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import gpucf
import gpucf.plot
from gpucf._cli import main
from gpucf._plot_cells import INSIDE, NOTHING, cut_into_rectangles


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"a": rng.random(300), "n": rng.integers(0, 30, 300), "c": rng.random(300), "k": rng.integers(0, 3, 300)}
    )


@pytest.fixture(scope="module")
def engine(people):
    y = people["a"] + people["n"] / 30 + 0.5 * people["c"] > 1.4
    return gpucf.Engine(RandomForestClassifier(7, max_depth=4, random_state=1).fit(people, y), people, method="search")


def at_points(people, cells):
    """The rows that the points of a map stand for, made by hand."""
    rows = pd.concat([people.iloc[[3]]] * cells.cost.size, ignore_index=True)
    rows[cells.features[0]] = np.tile(cells.x, len(cells.y)).astype(people[cells.features[0]].dtype)
    rows[cells.features[1]] = np.repeat(cells.y, len(cells.x)).astype(people[cells.features[1]].dtype)
    return rows


@pytest.mark.parametrize("cost", ["l1", "l2", "linf", "l0"])
def test_the_map_is_what_point_queries_say(engine, people, cost):
    cells = gpucf.plot.cells(engine, people.iloc[[3]], ["a", "n"], target=True, cost=cost, resolution=40)
    assert cells.y.tolist() == list(range(int(cells.y[0]), int(cells.y[-1]) + 1))  # whole numbers, one by one
    assert (cells.x == cells.x.astype(np.float32)).all()
    rows = at_points(people, cells)
    other = gpucf.Engine(engine._model, people, method="map")
    chosen = np.random.default_rng(1).choice(len(rows), 60, replace=False)
    for i in chosen.tolist():  # one row at a time, by the other method
        one = other.query(rows.iloc[[i]], True, cost=cost, immutable=["c", "k"])
        r, c = divmod(i, len(cells.x))
        assert one.cost[0] == cells.cost[r, c]
        assert (one.status[0] == "already") == cells.accepted[r, c]
        assert (one._after[0, [0, 1]] == cells.answer[r, c]).all()
        if cells.region[r, c] >= 0:
            x_lo, x_hi, y_lo, y_hi = cells.labels[cells.region[r, c]]
            x, y = one._after[0, [0, 1]]
            assert x_lo < x <= x_hi or x_lo <= x <= x_hi
            assert y_lo <= y <= y_hi


def test_the_map_equals_brute_force(engine, people):
    cells = gpucf.plot.cells(engine, people.iloc[[3]], ["a", "n"], target=True, resolution=40)
    rows = at_points(people, cells).sample(sizes.count(300), random_state=0)
    result = check_query(engine, rows, True, immutable=["c", "k"])  # every row against the definition
    assert (result.cost == cells.cost.ravel()[rows.index]).all()
    assert (engine._model.predict(rows) == cells.accepted.ravel()[rows.index]).all()


def test_the_rectangles_are_what_the_model_accepts(engine, people):
    cells = gpucf.plot.cells(engine, people.iloc[[3]], ["a", "n"], target=True, resolution=60)
    said = engine._model.predict(at_points(people, cells)).reshape(cells.cost.shape)
    assert 0.05 < said.mean() < 0.95
    assert (said == cells.accepted).all()
    assert ((cells.region == INSIDE) == said).all()
    # Thresholds are "at most goes left": a point is in a rectangle whose lower side it exceeds.
    inside = np.zeros(said.shape, int)
    for x_lo, x_hi, y_lo, y_hi in cells.labels:
        mine = (cells.x > x_lo) & (cells.x <= x_hi), (cells.y > y_lo) & (cells.y <= y_hi)
        inside += mine[1][:, None] & mine[0][None, :]
    assert (inside == said).all()  # each accepted point is in exactly one, each other point in none


@pytest.mark.parametrize("seed", range(sizes.count(100)))
def test_rectangles_cover_each_marked_cell_once(seed):
    rng = np.random.default_rng(seed)
    meets = rng.random(rng.integers(1, 9, 2)) < rng.random()
    owner, boxes = cut_into_rectangles(meets)
    counted = np.zeros(meets.shape, int)
    for k, (a, b, c, d) in enumerate(boxes):
        counted[c : d + 1, a : b + 1] += 1
        assert (owner[c : d + 1, a : b + 1] == k).all()
    assert (counted == meets).all()
    assert ((owner == NOTHING) == ~meets).all()


def test_the_map_with_all_features_free(engine, people):
    cells = gpucf.plot.cells(engine, people.iloc[[3]], ["a", "n"], target=True, move="all", resolution=15)
    result = engine.query(at_points(people, cells), True)
    assert (result.cost == cells.cost.ravel()).all()
    for i in range(len(result)):
        region = cells.region.ravel()[i]
        changed = tuple(c["feature"] for c in result.changes(i))
        assert (cells.labels[region] if region >= 0 else ()) == changed


def test_a_map_without_an_answer(people):
    X = people[["a", "c"]]
    never = gpucf.Engine(DecisionTreeClassifier(max_depth=1).fit(X, X["c"] > 0.5), X)
    row = pd.DataFrame({"a": [0.5], "c": [0.2]})
    cells = gpucf.plot.cells(never, row, ["a", "c"], target=True, immutable=["c"], resolution=10)
    assert set(np.unique(cells.region)) == {INSIDE, NOTHING}
    assert np.isinf(cells.cost[cells.region == NOTHING]).all()
    gpucf.plot.map(never, row, ["a", "c"], target=True, immutable=["c"], resolution=10).canvas.draw()


def text_of(figure):
    import matplotlib.text

    figure.canvas.draw()
    return " ".join(t.get_text() for t in figure.findobj(matplotlib.text.Text))


def test_pictures_say_what_they_show(engine, people):
    row = people.iloc[[3]]
    said = text_of(gpucf.plot.map(engine, row, ["a", "n"], resolution=20))
    assert "meets the target" in said
    assert "answered by" in said
    assert "changes" in text_of(gpucf.plot.map(engine, row, ["a", "n"], move="all", resolution=10))
    refused = people[engine._model.predict(people) == 0]
    result = engine.query(refused, True, options=3, region=True)
    shown = text_of(gpucf.plot.options(result, 0))
    assert all(c["feature"] in shown for c in result.changes(0))
    assert f"cost {result.cost[0]:.3g}" in shown
    card = text_of(gpucf.plot.card(result, 0))
    assert result.explain(0).sentence.split(";")[0][:30] in card
    assert "holds as long as" in card
    assert "Option 2" in card
    groups = np.where(refused["k"] == 0, "zero", "more")
    assert "zero" in text_of(gpucf.plot.costs(result, groups))
    audit = gpucf.audit(engine, people, ["k"], n_bootstrap=20, n_permutations=20, min_group=5)
    for draw in (gpucf.plot.curves, gpucf.plot.burden, gpucf.plot.features):
        figure = draw(audit, "k")
        assert "k 0" in text_of(figure)
        assert draw(audit, axes=figure.add_subplot()) is not None


def test_curves_are_the_shares_of_the_result(engine, people):
    refused = people[engine._model.predict(people) == 0]
    result = engine.query(refused, True)
    (line,) = gpucf.plot.costs(result).axes[0].get_lines()
    x, y = line.get_data()
    assert (y == [100 * (result.cost <= c).sum() / len(result) for c in x]).all()


def test_notebooks(engine, people):
    result = engine.query(people.head(20), True)
    html = result._repr_html_()
    assert "20 rows" in html
    assert result.explain(int(np.flatnonzero(result.status == "optimal")[0])).sentence.split(";")[0] in html
    assert "<table" not in engine.query(people.head(0), True)._repr_html_()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e, p: gpucf.plot.map(e, p.iloc[[0]], ["a", "z"]), "'z' is no ordered feature.*a, n, c, k"),
        (lambda e, p: gpucf.plot.map(e, p.iloc[[0]], ["a", "a"]), "give the names of two columns"),
        (lambda e, p: gpucf.plot.map(e, p.iloc[:2], ["a", "n"]), "a table of 2 rows; give one row"),
        (lambda e, p: gpucf.plot.map(e, p.iloc[[0]], ["a", "n"], move="some"), "move is 'some'"),
        (lambda e, p: gpucf.plot.map(e, p.iloc[[0]], ["a", "n"], resolution=1), "resolution is 1"),
        (lambda e, p: gpucf.plot.map(e, p.iloc[[0]], ["a", "n"], limits=[(0, 1), (5, 5)]), "nothing between 5.0"),
        (lambda e, p: gpucf.plot.costs(e.query(p, True), ["x"]), "has 1 entries for 300 rows"),
        (lambda e, p: gpucf.plot.costs(e.query(p, True), np.arange(300)), "at most 8 curves"),
    ],
)
def test_wrong_calls(engine, people, call, message):
    with pytest.raises(gpucf.OptionError, match=message):
        call(engine, people)


def test_a_regression_has_a_map_too(people):
    X = people[["a", "c"]]
    engine = gpucf.Engine(DecisionTreeRegressor(max_depth=4, random_state=0).fit(X, X["a"] * X["c"]), X)
    cells = gpucf.plot.cells(engine, X.iloc[[0]], ["a", "c"], target="score >= 0.5", resolution=30)
    said = engine._model.predict(
        pd.DataFrame({"a": np.tile(cells.x, len(cells.y)), "c": np.repeat(cells.y, len(cells.x))})
    )
    assert (cells.accepted.ravel() == (said >= 0.5)).all()


def test_without_matplotlib(engine, people, monkeypatch):
    import sys

    for name in [n for n in sys.modules if n == "matplotlib" or n.startswith("matplotlib.")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(gpucf.OptionError, match=r"pip install 'gpucf\[plot\]'"):
        gpucf.plot.map(engine, people.iloc[[0]], ["a", "n"], resolution=5)


@pytest.fixture(scope="module")
def files(tmp_path_factory, people):
    import xgboost

    where = tmp_path_factory.mktemp("plot")
    X = people.drop(columns="k")
    data = xgboost.DMatrix(X, X["a"] + X["n"] / 30 > 1)
    options = {"max_depth": 2, "objective": "binary:logistic", "nthread": 1}
    xgboost.train(options, data, num_boost_round=4).save_model(where / "model.json")
    X.assign(group=np.where(people["k"] == 0, "x", "y")).to_csv(where / "people.csv", index=False)
    return where


KINDS = [["map", "--axes", "a,n"], ["map", "--axes", "a,n", "--all"], ["card"], ["options"]]


@pytest.mark.parametrize("kind", [*KINDS, ["costs", "--by", "group", "--target", "1"]], ids=lambda k: "".join(k[::3]))
def test_the_command_line_draws(files, tmp_path, capsys, kind):
    for suffix, start in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        out = tmp_path / f"picture{suffix}"
        command = ["plot", kind[0], str(files / "model.json"), str(files / "people.csv"), "-o", str(out), *kind[1:]]
        assert main(command) == 0, capsys.readouterr().err
        assert out.read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["map", "-o", "x.gif"], "ends in one of .png, .svg, .pdf"),
        (["map", "-o", "x.png"], "needs --axes A,B"),
        (["card", "-o", "x.png", "--row", "300"], "has the rows 0 to 299"),
        (["costs", "-o", "x.png"], "needs one --by"),
    ],
)
def test_wrong_command_lines(files, tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    assert main(["plot", options[0], str(files / "model.json"), str(files / "people.csv"), *options[1:]]) == 1
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
