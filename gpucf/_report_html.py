"""The report as one HTML file: nothing is loaded from anywhere, no scripts, readable on a phone and on paper."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from gpucf._audit_gate import Verdict, overall
from gpucf._audit_result import Audit, Estimate, GroupReport, PartitionReport
from gpucf._audit_text import findings
from gpucf._audit_words import interval_text, measure_title, number, value_text
from gpucf._plot_style import available
from gpucf._report_method import SOURCES, definitions

_MAX_SUBGROUPS = 15
_MAX_FEATURES = 6
_MAX_PAIRS = 10

STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; color: #1a1a1a;
  background: #fff; margin: 0 auto; padding: 1rem 1.25rem 3rem; max-width: 62rem; overflow-wrap: break-word; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 1rem 0 .25rem; }
h2 { font-size: 1.3rem; margin: 2.2rem 0 .5rem; border-bottom: 2px solid #0b5c8f; padding-bottom: .2rem; }
h3 { font-size: 1.08rem; margin: 1.5rem 0 .4rem; }
a { color: #0b5c8f; }
.lead { color: #444; margin-top: 0; }
.verdict { border-left: 6px solid; padding: .6rem 1rem; margin: 1rem 0; background: #f5f5f5; }
.held { border-color: #1b6e3c; } .violated { border-color: #a3260c; } .undecided { border-color: #8a5a00; }
.state { font-weight: 700; white-space: nowrap; }
.state.held { color: #14592f; } .state.violated { color: #8f1f08; } .state.undecided { color: #6e4700; }
.findings li { margin: .45rem 0; }
.scroll { overflow-x: auto; margin: .6rem 0 1rem; }
.scroll:focus-visible { outline: 3px solid #0b5c8f; outline-offset: 2px; }
table { border-collapse: collapse; font-size: .92rem; min-width: 100%; }
.caption { font-weight: 600; margin: 1.2rem 0 0; }
th, td { padding: .32rem .6rem; border-bottom: 1px solid #ccc; text-align: right; vertical-align: top; }
th { background: #eef3f7; } thead th { border-bottom: 2px solid #777; }
tbody th { min-width: 8.5rem; }
th:first-child, td:first-child, th.text, td.text { text-align: left; }
.range { display: block; color: #555; font-size: .82rem; white-space: nowrap; }
figure { margin: 1rem 0; } figure svg { width: 100%; max-width: 46rem; min-width: 32rem; height: auto; display: block; }
figcaption { color: #444; font-size: .9rem; }
dt { font-weight: 600; margin-top: .6rem; } dd { margin: 0 0 .4rem 1.2rem; }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .86rem; }
pre { background: #f5f5f5; padding: .6rem .8rem; overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; }
.note { color: #444; font-size: .92rem; }
@media (max-width: 40rem) { body { padding: .5rem .8rem 2rem; } h1 { font-size: 1.45rem; }
  th, td { padding: .28rem .4rem; } dd { margin-left: .6rem; } }
@media print { body { max-width: none; padding: 0; font-size: 10.5pt; } .scroll { overflow: visible; }
  tbody th { min-width: 0; }
  figure svg { min-width: 0; max-width: 15cm; }
  table { font-size: 8.5pt; } tr, figure, .verdict { break-inside: avoid; } h2, h3 { break-after: avoid; }
  a { color: inherit; } }
"""


def page(audit: Audit, verdicts: Sequence[Verdict] = (), about: Mapping[str, Any] | None = None) -> str:
    """The whole report."""
    about = dict(about or audit.about)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    names = ", ".join(audit.settings["attributes"])
    body = [
        "<header>",
        f"<h1>Is recourse fair? Audit by {escape(names)}</h1>",
        f'<p class="lead">Made by gpucf {escape(str(about["gpucf"]))}, {escape(now)}.</p>',
        "</header><main>",
        _verdict_box(verdicts),
        _findings(audit),
        *(_partition(audit, part, number) for number, part in enumerate(audit.partitions)),
        _subgroups(audit),
        _sensitivity(audit),
        _checks(verdicts),
        _method(audit),
        _reproduce(audit, about),
        "</main>",
    ]
    head = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Recourse audit by {escape(names)}</title>"
        # No network, no scripts: also if something should ever slip into the file.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:">'
        '<link rel="icon" href="data:,">'
        f"<style>{STYLE}</style></head><body>\n"
    )
    return head + "\n".join(body) + "\n</body></html>\n"


def _verdict_box(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return '<p class="note">No thresholds were given, so that nothing was judged to be fair or unfair.</p>'
    state = overall(verdicts)
    counts = {s: sum(v.state == s for v in verdicts) for s in ("held", "violated", "undecided")}
    words = {
        "held": "All thresholds are held.",
        "violated": "At least one threshold is violated.",
        "undecided": "Not all thresholds could be decided, and none is certainly violated.",
    }
    return (
        f'<div class="verdict {state}" role="note"><span class="state {state}">{state.upper()}</span> {words[state]} '
        f"{counts['held']} held, {counts['violated']} violated, {counts['undecided']} undecided; "
        '<a href="#checks">all checks</a>.</div>'
    )


def _findings(audit: Audit) -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in findings(audit))
    what = (
        "“Recourse” is the cheapest permitted change of a person's data after which the model accepts. “Cost” says how "
        "large that change is, in the units given under <a href='#method'>Method</a>. The audit says how the model "
        "treats groups; why it does so, and whether that is justified, are questions for people."
    )
    return f'<h2>Findings</h2><ul class="findings">{items}</ul><p class="note">{what}</p>'


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], text_columns: Sequence[int] = (0,)) -> str:
    """A table of cells that are HTML already; the first cell of a row is its header."""

    def cell(tag: str, k: int, content: str, extra: str = "") -> str:
        return f"<{tag}{' class=text' if k in text_columns else ''}{extra}>{content}</{tag}>"

    header = "".join(cell("th", k, h, ' scope="col"') for k, h in enumerate(head))
    lines = []
    for row in rows:
        first = cell("th", 0, row[0], ' scope="row"')
        lines.append("<tr>" + first + "".join(cell("td", k, c) for k, c in enumerate(row[1:], 1)) + "</tr>")
    name = "t-" + "".join(c if c.isalnum() else "-" for c in caption.lower())
    return f'<p class="caption" id="{escape(name, quote=True)}">{escape(caption)}</p>' + _scroll(
        name,
        f'<table aria-labelledby="{escape(name, quote=True)}"><thead><tr>{header}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>",
    )


def _scroll(labelled_by: str, content: str) -> str:
    """What is wider than a phone moves sideways by itself; with the keyboard too, hence the tabindex."""
    name = escape(labelled_by, quote=True)
    return f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{name}">{content}</div>'


def _cell(key: str, e: Estimate | None) -> str:
    if e is None:
        return "-"
    interval = interval_text(key, e.interval)
    shown = escape(value_text(key, e.low, e.high))
    return shown + (f'<span class="range">{escape(interval)}</span>' if interval else "")


def _partition(audit: Audit, part: PartitionReport, at: int) -> str:
    level = f"{100 * audit.settings['level']:g} %"
    keys = [k for k in ("refused", "no_recourse", "burden", "median", "changes", "options") if _has(part, k)]
    rows = []
    for g in part.groups:
        head = [escape(g.name) + (f'<span class="range">{escape(g.note)}</span>' if g.note else "")]
        rows.append([*head, f"{g.n:,}", f"{g.n_refused:,}", *(_cell(k, g.measures.get(k)) for k in keys)])
    out = [f"<h2>By {escape(part.name)}</h2>", _pictures(audit, part, at)]
    out.append(
        table(
            f"Groups by {part.name} (brackets: {level} bootstrap interval)",
            ["group", "rows", "refused", *(escape(measure_title(k)) for k in keys)], rows,
        )
    )  # fmt: skip
    known = [g for g in part.groups if g.sufficient]
    if known:
        out += [_costs(audit, part, known), _features(part, known)]
    if part.gaps:
        out.append(_gaps(part))
    return "".join(out)


def _has(part: PartitionReport, key: str) -> bool:
    return any(key in g.measures for g in part.groups)


def _costs(audit: Audit, part: PartitionReport, groups: Sequence[GroupReport]) -> str:
    budgets = [f"within:{b:g}" for b in audit.settings["budgets"]]
    shares = list(groups[0].quantiles)
    rows = [
        [
            escape(g.name),
            *(escape(value_text("burden", *g.quantiles[q])) for q in shares),
            *(_cell(k, g.measures.get(k)) for k in budgets),
        ]
        for g in groups
    ]
    head = [f"cost for {100 * q:g} %" for q in shares] + [escape(measure_title(k)) for k in budgets]
    title = f"Cost at which a share of the refused reaches acceptance, and shares within budgets, by {part.name}"
    return table(title, ["group", *head], rows)


def _features(part: PartitionReport, groups: Sequence[GroupReport]) -> str:
    total: dict[str, float] = {}
    for g in groups:
        for f in g.features:
            total[f.name] = total.get(f.name, 0.0) + f.cost
    names = sorted(total, key=lambda name: (-total[name], name))[:_MAX_FEATURES]
    if not names:
        return ""
    rows = []
    for g in groups:  # a row each: intersections are many
        carried = {f.name: f for f in g.features}
        cells = []
        for name in names:
            shown = "-"
            if name in carried:
                changed = value_text("refused", *carried[name].changed)
                shown = f'{100 * carried[name].cost:.1f} %<span class="range">changed: {escape(changed)}</span>'
            cells.append(shown)
        rows.append([escape(g.name), *cells])
    title = f"Which features carry the cost, by {part.name}: share of the proved cost, and how often they change"
    return table(title, ["group", *map(escape, names)], rows)


def _gaps(part: PartitionReport) -> str:
    rows = []
    for key, g in part.gaps.items():
        p = value_text("p", *g.p) if not math.isnan(g.p[0]) else "no test"
        rows.append([escape(measure_title(key)), _cell(key, g.gap), _cell("ratio", g.ratio), p, number("p", g.p_holm)])
    if not math.isnan(part.curve_gap.low):
        shown = value_text("curve", part.curve_gap.low, part.curve_gap.high)
        rows.append([escape(measure_title("curve")), shown, "-", "-", "-"])
    statistic, chance = part.cost_test
    title = f"Largest differences between any two groups, by {part.name}"
    out = table(title, ["measure", "gap", "ratio", "p", "p, adjusted"], rows)
    if not math.isnan(chance):
        out += (
            f'<p class="note">Do the costs of these groups differ at all? Kruskal and Wallis\' statistic '
            f"{statistic:.1f}, permutation p = {number('p', chance)}.</p>"
        )
    return out


def _pictures(audit: Audit, part: PartitionReport, at: int) -> str:
    if not available():
        return "<p class=\"note\">No pictures: matplotlib is not installed (pip install 'gpucf[plot]').</p>"
    from gpucf._report_pictures import pictures

    out = []
    for k, (svg, caption) in enumerate(pictures(audit, part, at)):
        name = f"p{at}-{k}-text"
        out.append(f'<figure>{_scroll(name, svg)}<figcaption id="{name}">{escape(caption)}</figcaption></figure>')
    return "".join(out)


def _subgroups(audit: Audit) -> str:
    if not audit.subgroups:
        return ""
    rows = [
        [
            escape(s.name), f"{s.support:,}", escape(value_text("burden", *s.burden)),
            escape(value_text("burden", *s.burden_rest)), escape(value_text("no_recourse", *s.no_recourse)),
            f"{s.z:.1f}", number("p", s.p_adjusted),
        ]
        for s in audit.subgroups[:_MAX_SUBGROUPS]
    ]  # fmt: skip
    head = ["subgroup", "refused", "mean cost", "of all others", "without recourse", "z", "p, adjusted"]
    return (
        "<h2>Which combination carries the worst burden?</h2>"
        f"<p>All {len(audit.subgroups)} groups and intersections with at least {audit.settings['min_group']} refused "
        "rows "
        "were compared with all other refused rows. The p-value is that of the worst of all of them, so that looking "
        "at "
        "many does not make chance look like a finding.</p>"
        + table("Subgroups, worst first", head, rows)
    )  # fmt: skip


def _sensitivity(audit: Audit) -> str:
    if not audit.sensitivity:
        return ""
    rows, pairs = [], []
    for s in audit.sensitivity:
        if not s.read_by_model:
            rows.append([escape(s.attribute), "not read by the model", "-", "-", "-", "-"])
            continue
        small = escape(value_text("flips", *s.small_unlocked))
        rows.append(
            [escape(s.attribute), ", ".join(map(escape, s.settings)), f"{s.n_rows:,}", f"{s.refused_to_accepted:,}",
             f"{s.accepted_to_refused:,}", small]
        )  # fmt: skip
        for k in range(min(len(s.pairs["row"]), _MAX_PAIRS)):
            cells = [escape(str(s.pairs[name][k])) for name in ("row", "from", "to", "before", "after")]
            pairs.append([escape(s.attribute), *cells])
    head = ["attribute", "values tried", "rows", "refused → accepted", "accepted → refused", "small change unlocked"]
    out = (
        "<h2>Does the attribute itself decide?</h2><p>Each row was put to the model again with only the attribute set "
    )
    out += "to each of its other values. “Small change unlocked” counts refused rows that a small change "
    out += f"(at most {number('burden', audit.settings['small_change'])}) helps only with another value.</p>"
    out += table("Decisions that turn when only the attribute changes", head, rows, (0, 1))
    if pairs:
        title = f"First {len(pairs)} of the pairs (all are in flips.csv)"
        out += table(title, ["attribute", "row", "from", "to", "before", "after"], pairs, (0, 2, 3, 4, 5))
    return out


def _checks(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return ""
    rows = [
        [escape(v.name), f'<span class="state {v.state}">{v.state}</span>', escape(v.text)] for v in verdicts
    ]  # fmt: skip
    return '<h2 id="checks">All checks</h2>' + table("Thresholds", ["check", "verdict", "why"], rows, (0, 1, 2))


def _method(audit: Audit) -> str:
    parts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in definitions(audit))
    sources = "".join(f"<li>{escape(text)}</li>" for text in SOURCES)
    return f'<h2 id="method">Method</h2><dl>{parts}</dl><h3>Sources</h3><ol>{sources}</ol>'


def _reproduce(audit: Audit, about: Mapping[str, Any]) -> str:
    rows = [[escape(str(name)), f"<code>{escape(str(value))}</code>"] for name, value in about.items()]
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in audit.seconds.items())
    settings = escape(json.dumps(audit.settings, indent=1, default=str))
    return (
        "<h2>How to reproduce each number</h2>"
        "<p>The numbers depend on nothing but the model, the table, the settings below and the version of gpucf; the "
        "seed "
        "fixes all random draws. rows.csv holds for each row of the table its group, status, cost and lower bound: "
        "every "
        "count, share, mean and quantile above can be recomputed from it. audit.json holds all numbers unrounded.</p>"
        + table("Model, data, versions", ["what", "value"], rows, (0, 1))
        + f'<h3>Settings</h3><pre>{settings}</pre><p class="note">Time: {escape(seconds)}.</p>'
    )
