"""`gpucf audit`: exit codes, files, the gate with open rows; the report in a real browser."""

from __future__ import annotations

import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import xgboost

import gpucf
from gpucf._cli import main

FILES = ["audit.json", "flips.csv", "index.html", "junit.xml", "rows.csv", "summary.txt"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model that reads age, income and debt, and people with a sex and a region that it does not read."""
    where = tmp_path_factory.mktemp("audit")
    rng = np.random.default_rng(0)
    n = 600
    X = pd.DataFrame({"age": rng.integers(18, 80, n), "income": rng.normal(3.0, 1.0, n).round(2),
                      "debt": rng.exponential(2.0, n).round(1)})  # fmt: skip
    sex = rng.choice(["f", "m"], n)
    X["income"] -= 1.6 * (sex == "f")  # planted: women are further away
    y = X["income"] * 10 + X["age"] / 4 - 6 * X["debt"] > 25
    options = {"max_depth": 3, "seed": 1, "objective": "binary:logistic", "nthread": 1}
    model = xgboost.train(options, xgboost.DMatrix(X.astype(float), y), num_boost_round=12)
    model.save_model(where / "model.json")
    X.assign(sex=sex, region=rng.choice(["007", "01<b>&"], n)).to_csv(where / "people.csv", index=False)
    (where / "few.yaml").write_text("n_bootstrap: 99\nn_permutations: 99\n")
    return where


@pytest.fixture
def run(folder, tmp_path, capsys):
    """Run `gpucf audit`; returns exit code, folder of the report, stdout and stderr."""

    def call(*options, config="", out="report"):
        (tmp_path / "audit.yaml").write_text((folder / "few.yaml").read_text() + config)
        code = main(["audit", str(folder / "model.json"), str(folder / "people.csv"), "-o", str(tmp_path / out),
                     "--config", str(tmp_path / "audit.yaml"), *options])  # fmt: skip
        captured = capsys.readouterr()
        return code, tmp_path / out, captured.out, captured.err

    return call


def test_a_passing_gate_gives_0(run):
    code, out, text, err = run("--by", "sex", config="thresholds: [{measure: no_recourse, max: 0.5}]\n")
    assert (code, err) == (0, "")
    assert sorted(p.name for p in out.iterdir()) == FILES
    suite = ElementTree.parse(out / "junit.xml").getroot()
    assert suite.attrib == {"tests": "2", "failures": "0", "errors": "0"}
    assert "HELD: 2 checks" in text
    assert len(text.splitlines()) <= 24


def test_a_failing_gate_gives_1(run):
    code, out, text, _ = run("--by", "sex", config="thresholds: [{measure: burden, max_gap: 0.001}]\n")
    assert code == 1
    case = ElementTree.parse(out / "junit.xml").getroot().find("testsuite/testcase")
    assert case.attrib["name"] == "burden, gap by sex"
    assert "mean cost of recourse: gap" in case.find("failure").attrib["message"]
    assert "VIOLATED  burden, gap by sex" in text
    found = json.loads((out / "audit.json").read_text())
    assert found["verdict"] == "violated"


def test_a_gap_that_chance_explains_is_no_violation_where_alpha_is_given(run):
    code, out, *_ = run("--by", "sex", config="thresholds: [{measure: burden, max_gap: 0.001, alpha: 0.05}]\n")
    assert code == 0
    p = json.loads((out / "audit.json").read_text())["partitions"][0]["gaps"]["burden"]["p"]
    assert p[0] > 0.05


@pytest.mark.parametrize(
    ("threshold", "code"),
    [
        ("{measure: burden, max_gap: 0.001}", 2),  # the open rows could close the gap
        ("{measure: refused, max: 0.0001}", 1),  # violated whatever the open rows are
        ("{measure: refused, max: 0.99}", 0),  # held whatever they are
        ("{measure: unresolved, max: 0}", 1),
    ],
)
def test_open_rows_give_2_only_where_they_matter(run, threshold, code):
    found, out, text, _ = run("--by", "sex", "--node-limit", "1", config=f"thresholds: [{threshold}]\n")
    counts = json.loads((out / "audit.json").read_text())["counts"]
    assert counts["feasible"] + counts["unknown"] > 100
    assert found == code
    if code == 2:
        assert "UNDECIDED" in text
        assert ElementTree.parse(out / "junit.xml").getroot().attrib["errors"] == "1"


def test_no_thresholds_give_0(run):
    code, _, text, _ = run("--by", "sex,region")
    assert code == 0
    assert "sex f" in text


def test_settings_of_the_file_and_of_the_command_line(run, folder):
    config = "by: [age]\nbins: {age: [30, 50]}\nquery: {cost: l0, immutable: [debt]}\nmin_group: 5\n"
    code, out, *_ = run(config=config)
    settings = json.loads((out / "audit.json").read_text())["settings"]
    assert code == 0
    assert (settings["attributes"], settings["bins"], settings["min_group"]) == (["age"], {"age": [30, 50]}, 5)
    assert settings["query"] == {"cost": "l0", "immutable": ["debt"]}
    assert settings["held"] == ["age"]
    _, out, *_ = run("--cost", "l2", "--by", "sex", config="query: {cost: l0}\n", out="other")
    settings = json.loads((out / "audit.json").read_text())["settings"]
    assert (settings["attributes"], settings["query"]) == (["sex"], {"cost": "l2"})


def test_the_rows_give_back_every_number(run):
    _, out, *_ = run("--by", "sex,region")
    found = json.loads((out / "audit.json").read_text())
    rows = pd.read_csv(out / "rows.csv", dtype={"by_region": str})
    refused = rows[rows["status"] != "already"]
    for g in found["partitions"][2]["groups"]:
        mine = refused[(refused["by_sex"] == g["values"][0]) & (refused["by_region"] == g["values"][1])]
        assert len(mine) == g["n_refused"] > 30
        assert mine["cost"].mean() == pytest.approx(g["measures"]["burden"]["low"], rel=1e-12)
        assert mine["n_changed"].mean() == pytest.approx(g["measures"]["changes"]["low"], rel=1e-12)
        assert np.quantile(mine["cost"], 0.5, method="inverted_cdf") == g["measures"]["median"]["low"]
    assert found["about"]["model file"].startswith("model.json, SHA-256 ")
    assert found["about"]["verified_by"].startswith("xgboost")


def test_the_report_is_the_same_as_that_of_the_library(run, folder):
    _, out, *_ = run("--by", "sex")
    table = pd.read_csv(folder / "people.csv").drop(columns="region")
    engine = gpucf.Engine(folder / "model.json", table.drop(columns="sex"))
    mine = gpucf.audit(engine, table, ["sex"], n_bootstrap=99, n_permutations=99).to_dict()
    theirs = json.loads((out / "audit.json").read_text())
    for key in ("partitions", "subgroups", "counts", "findings"):
        assert json.loads(json.dumps(mine[key])) == theirs[key]


@pytest.mark.parametrize(
    ("options", "config", "message"),
    [
        ([], "", "name the attributes to audit by"),
        (["--by", "nobody"], "", "has no column 'nobody' to audit by"),
        (["--by", "income"], "", "'income' has .* different values"),
        (["--by", "sex"], "treshold: []\n", "unknown key 'treshold'"),
        (["--by", "sex"], "order: many\n", "order is 'many'; it must be of the kind int"),
        (["--by", "sex"], "query: {carry: [a]}\n", "query has the unknown key 'carry'"),
        (["--by", "sex"], "thresholds: [{measure: cost}]\n", "the measure is 'cost'"),
        (["--by", "sex", "--config", "none.yaml"], "", "cannot read the audit file none.yaml"),
        (["--by", "sex", "--node-limit", "few"], "", "--node-limit is 'few'"),
        (["--no-such-option"], "", "unrecognized arguments"),
    ],
)
def test_what_cannot_be_used_gives_2(run, options, config, message):
    code, out, text, err = run(*options, config=config)
    assert (code, text) == (2, "")
    assert re.search(message, err)
    assert err.count("\n") == 1
    assert not out.exists()


# --- the page ---------------------------------------------------------------------------------------------------------


class _Page(HTMLParser):
    """What the checks below ask of a page."""

    VOID = ("meta", "link", "br", "img", "hr", "input")

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.links, self.open, self.problems = [], [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append((tag, attributes))
        if "id" in attributes:
            self.ids.append(attributes["id"])
        for name in ("href", "src", "xlink:href", "aria-labelledby"):
            if name in attributes:
                self.links.append((name, attributes[name]))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture
def page(run):
    _, out, *_ = run("--by", "sex,region", config="thresholds: [{measure: burden, max_gap: 0.001}]\n")
    return out / "index.html"


def test_the_page_is_self_contained_and_labelled(page):
    text = page.read_text()
    found = _Page(text)
    assert len(found.ids) == len(set(found.ids))
    for name, target in found.links:
        assert target.startswith(("#", "data:")) or name == "aria-labelledby", target
        if target.startswith("#") or name == "aria-labelledby":
            assert target.removeprefix("#") in found.ids, target
    assert not re.search(r"https?://(?!www\.w3\.org/)", text)
    assert "<script" not in text
    tags = [tag for tag, _ in found.tags]
    assert tags.count("h1") == tags.count("main") == tags.count("title") == 1
    assert dict(found.tags)["html"] == {"lang": "en"}
    pictures = [a for tag, a in found.tags if tag == "svg"]
    assert len(pictures) >= 6
    assert all(a["role"] == "img" and len(a["aria-label"]) > 40 for a in pictures)
    assert all("scope" in a for tag, a in found.tags if tag == "th")
    assert "01&lt;b&gt;&amp;" in text
    assert "<b>" not in text


def test_the_report_without_matplotlib_says_so(run, monkeypatch):
    import sys

    for name in [n for n in sys.modules if n.startswith("gpucf._plot") or n.startswith("gpucf._report_pic")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    _, out, *_ = run("--by", "sex")
    text = (out / "index.html").read_text()
    assert "No pictures: matplotlib is not installed" in text
    assert "<svg" not in text


def _luminance(colour):
    c = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)] if len(colour) == 6 else [int(x, 16) / 15 for x in colour]
    c = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in c]
    return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]


def test_contrast_of_all_text_colours():
    """At least 4.5 to 1 against every background of the page (WCAG 2.1, AA)."""
    from gpucf._report_html import STYLE

    grounds = re.findall(r"background: #([0-9a-f]+)", STYLE)
    assert len(grounds) >= 3
    for text in re.findall(r"[^-]color: #([0-9a-f]+)", STYLE):
        for ground in grounds:
            a, b = sorted([_luminance(text), _luminance(ground)])
            assert (b + 0.05) / (a + 0.05) >= 4.5, (text, ground)


CHROMIUM = [
    "chromium", "--headless", "--hide-scrollbars", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-logging=stderr",
]  # fmt: skip


def _browse(tmp_path: Path, page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CHROMIUM, f"--user-data-dir={tmp_path / 'profile'}", *options, page.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 360])
def test_the_page_in_a_browser(page, tmp_path, width):
    """No message on the console, nothing blocked, and nothing wider than the window but what scrolls by itself."""
    # The page may run no scripts; a frame around it can measure it.
    probe = tmp_path / "probe.html"
    probe.write_text(
        f'<iframe id="f" src="{page.as_uri()}" style="width:{width}px;height:900px;border:0"></iframe><script>'
        "f.onload = () => { const d = f.contentDocument; const wide = [...d.querySelectorAll('body *')].filter(e =>"
        " !e.closest('.scroll') && e.getBoundingClientRect().right > f.clientWidth + 1);"
        "document.title = JSON.stringify({scroll: d.documentElement.scrollWidth, client: d.documentElement.clientWidth,"
        " wide: wide.length, svg: d.querySelectorAll('svg').length}); }</script>"
    )
    done = _browse(tmp_path, probe, "--allow-file-access-from-files", "--dump-dom", "--virtual-time-budget=5000")
    found = json.loads(re.search(r"<title>(\{.*?\})</title>", done.stdout)[1])
    assert found["scroll"] <= found["client"] == width
    assert found["wide"] == 0
    assert found["svg"] >= 6
    assert "CONSOLE" not in done.stderr, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.browser
def test_the_console_check_can_fail(tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text('<meta http-equiv="Content-Security-Policy" content="default-src \'none\'"><img src="x.png">')
    assert "CONSOLE" in _browse(tmp_path, bad, "--dump-dom").stderr


@pytest.mark.browser
def test_the_page_prints(page, tmp_path):
    out = tmp_path / "report.pdf"
    _browse(tmp_path, page, f"--print-to-pdf={out}")
    data = out.read_bytes()
    assert data.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", data)) <= 30
