"""An audit as one screen of text, as findings in plain language, as JSON, and in a notebook."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from gpucf._audit_result import Audit, PartitionReport
from gpucf._audit_words import number, short_text, value_text

if TYPE_CHECKING:
    from gpucf._audit_gate import Verdict

_SHOWN_GROUPS = 6
_SHOWN_VERDICTS = 8


def findings(audit: Audit) -> list[str]:
    """The main things, a sentence or two each."""
    if not audit.n:
        return ["The table has no rows."]
    if not audit.n_refused:
        return [f"The model refuses none of the {audit.n:,} rows, so that nobody needs recourse."]
    out = [_who(audit)]
    for part in audit.partitions:
        if len(part.attributes) == 1:
            out += _by_attribute(part)
    out += _worst(audit)
    out += [_flips(s) for s in audit.sensitivity]
    return out


def _who(audit: Audit) -> str:
    c = audit.counts
    text = f"The model refuses {audit.n_refused:,} of {audit.n:,} rows ({100 * audit.n_refused / audit.n:.1f} %). "
    if c["infeasible"] == audit.n_refused:
        return text + "None of them has recourse: it is proved that no permitted change leads to acceptance."
    text += f"For {c['optimal']:,} the cheapest permitted change that the model accepts was found and proved; "
    none = c["infeasible"]
    text += f"for {none:,} it is proved that there is none." if none else "nobody was proved to be without one."
    open_rows = c["feasible"] + c["unknown"]
    if open_rows:
        text += (
            f" A limit left {open_rows:,} rows open; they count with the bounds that are certain, so that some numbers "
            "are intervals."
        )
    return text


def _by_attribute(part: PartitionReport) -> list[str]:
    kept = [g for g in part.groups if g.sufficient]
    small = len(part.groups) - len(kept)
    if len(kept) < 2:
        return [f"By {part.name}: fewer than two groups have enough refused rows, so that nothing can be compared."]
    known = [g for g in kept if not math.isnan(g.measures["burden"].low)]
    out = []
    if len(known) > 1:
        worst, best = (f(known, key=lambda g: g.measures["burden"].low) for f in (max, min))
        costs = [value_text("burden", g.measures["burden"].low, g.measures["burden"].high) for g in (worst, best)]
        gap = part.gaps["burden"]
        out.append(
            f"By {part.name}: recourse costs {costs[0]} on average for '{worst.name}' and {costs[1]} for '{best.name}' "
            f"(ratio {value_text('ratio', gap.ratio.low, gap.ratio.high)}). {_chance(gap.p, gap.p_holm)}"
        )
    none = part.gaps["no_recourse"]
    if none.gap.high > 0:
        text = (
            f"By {part.name}: the share without any recourse differs by "
            f"{value_text('no_recourse', none.gap.low, none.gap.high)}"
        )
        if none.gap.low > 0:
            worst = max(kept, key=lambda g: g.measures["no_recourse"].low)
            share = worst.measures["no_recourse"]
            text += f"; it is largest for '{worst.name}' ({value_text('no_recourse', share.low, share.high)})"
        out.append(f"{text}. {_chance(none.p, none.p_holm)}")
    if small:
        out.append(f"By {part.name}: {small} group(s) with too few refused rows are listed with their counts only.")
    return out


def _chance(bounds: tuple[float, float], adjusted: float) -> str:
    p = bounds[1]
    if math.isnan(p):
        return ""
    if bounds[0] <= 0.05 < p:
        return "Whether chance explains it cannot be said while rows are open."
    if math.isnan(adjusted) or adjusted > 0.05:
        word = "could be chance" if p > 0.05 else "could be chance, given how many gaps were tested"
        return f"Such a gap {word} (permutation test: p = {p:.3f}, adjusted {adjusted:.3f})."
    return f"Chance does not explain it (permutation test: p = {p:.3f}, adjusted for all tests {adjusted:.3f})."


def _worst(audit: Audit) -> list[str]:
    found = [s for s in audit.subgroups if s.p_adjusted <= 0.05]
    if not found:
        looked = len(audit.subgroups)
        return [f"Of {looked} subgroups that were searched, none carries more than chance explains."] if looked else []
    s = found[0]
    return [
        f"Of {len(audit.subgroups)} subgroups that were searched, '{s.name}' ({s.support:,} refused) carries most: "
        f"{value_text('burden', *s.burden)} on average against {value_text('burden', *s.burden_rest)} for all others "
        f"(p = {s.p_adjusted:.3f} after correction for the search)."
    ]


def _flips(s: Any) -> str:
    if not s.read_by_model:
        return f"The model does not read {s.attribute}: changing it alone cannot change any decision."
    n = s.refused_to_accepted + s.accepted_to_refused
    if not n:
        text = f"Changing only {s.attribute} turns no decision among {s.n_rows:,} rows (the model was asked)."
    else:
        text = (
            f"Changing only {s.attribute}, and nothing else, turns {n:,} of {s.n_rows:,} decisions: "
            f"{s.refused_to_accepted:,} refused rows would be accepted and {s.accepted_to_refused:,} accepted ones "
            "refused."
        )
    if s.n_refused:
        text += (
            f" A change of at most {number('burden', s.small)} helps {value_text('flips', *s.small_before)} refused "
            f"rows as they are; {value_text('flips', *s.small_unlocked)} more would be helped with another value of "
            f"{s.attribute}."
        )
    return text


def summary(audit: Audit, verdicts: Sequence[Verdict] = ()) -> str:
    """One screen."""
    lines = [repr(audit).removeprefix("<gpucf.").removesuffix(">")]
    c = audit.counts
    open_rows = c["feasible"] + c["unknown"]
    lines.append(
        f"{c['optimal']:,} proved, {c['infeasible']:,} without recourse (proved), {open_rows:,} open; checked by "
        f"{audit.about['verified_by']}"
    )
    for part in audit.partitions:
        if len(part.attributes) == 1:
            lines += ["", *_table(part)]
    marks = [s for s in audit.subgroups if s.p_adjusted <= 0.05][:1]
    lines += [""] + [f"worst subgroup: {s.name}, p = {s.p_adjusted:.3f} (adjusted)" for s in marks]
    for s in audit.sensitivity:
        n = s.refused_to_accepted + s.accepted_to_refused
        lines.append(f"changing only {s.attribute}: " + (f"{n:,} decisions turn" if s.read_by_model else "not read"))
    if verdicts:
        from gpucf._audit_gate import HELD, overall

        lines.append("")
        shown = [v for v in verdicts if v.state != HELD] or list(verdicts)
        lines += [f"{v.state.upper():9} {v.name}: {v.text}" for v in shown[:_SHOWN_VERDICTS]]
        if len(shown) > _SHOWN_VERDICTS:
            lines.append(f"... and {len(shown) - _SHOWN_VERDICTS} more, see junit.xml")
        lines.append(f"{overall(verdicts).upper()}: {len(verdicts)} checks")
    return "\n".join(lines)


def _table(part: PartitionReport) -> list[str]:
    head = [part.name, "rows", "refused", "no recourse", "mean cost", "median"]
    rows = [head]
    for g in part.groups[:_SHOWN_GROUPS]:
        cells = [g.note or "-", "", ""]
        if g.sufficient:
            cells = [short_text(k, g.measures[k].low, g.measures[k].high) for k in ("no_recourse", "burden", "median")]
        rows.append([g.name, f"{g.n:,}", f"{g.n_refused:,}", *cells])
    widths = [max(len(row[k]) for row in rows) for k in range(len(head))]
    lines = []
    for row in rows:
        padded = [c.ljust(w) if k in (0, 3) else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(padded))
    if len(part.groups) > _SHOWN_GROUPS:
        lines.append(f"... and {len(part.groups) - _SHOWN_GROUPS} more groups")
    return [line.rstrip() for line in lines]


def notebook(audit: Audit) -> str:
    """Findings and the tables of single attributes, as HTML."""
    items = "".join(f"<li>{escape(text)}</li>" for text in findings(audit))
    tables = "".join(
        f"<pre>{escape(chr(10).join(_table(part)))}</pre>" for part in audit.partitions if len(part.attributes) == 1
    )
    return f"<div><strong>{escape(repr(audit)[1:-1])}</strong><ul>{items}</ul>{tables}</div>"


def as_json(audit: Audit) -> dict[str, Any]:
    """Everything but the rows, as what JSON can hold."""
    sensitivity = [s.to_dict() for s in audit.sensitivity]
    parts = {f.name: getattr(audit, f.name) for f in dataclasses.fields(audit)}
    return _jsonable({**parts, "sensitivity": sensitivity, "rows": None, "findings": findings(audit)})


def _jsonable(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _jsonable(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(k): _jsonable(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return _jsonable(value.tolist())
    if isinstance(value, list | tuple):
        return [_jsonable(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "infinity" if value > 0 else "-infinity"
    return value
