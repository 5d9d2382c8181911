"""``audit.yaml``: what to audit, how, and which thresholds must hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpucf._errors import OptionError
from gpucf._features_file import read_features

# Key -> the type that it has.
_KEYS: dict[str, tuple[type, ...]] = {
    "target": (str, int, float, bool, list),
    "by": (list, str),
    "bins": (dict,),
    "labels": (dict,),
    "may_change": (list, str),
    "budgets": (list,),
    "order": (int,),
    "min_group": (int,),
    "n_bootstrap": (int,),
    "n_permutations": (int,),
    "level": (float,),
    "seed": (int,),
    "sensitivity_to": (list, str),
    "small_change": (float, int),
    "features": (str, dict),
    "one_hot": (dict,),
    "background": (str,),
    "query": (dict,),
    "thresholds": (list,),
}
QUERY = (
    "cost", "weights", "scale", "margin", "immutable", "increase_only", "decrease_only", "limits", "only", "options",
    "node_limit", "time_limit_s",
)  # fmt: skip


def read_config(path: str | None) -> dict[str, Any]:
    """The entries of an audit file; empty without one. Files that it names lie beside it.

    Raises
    ------
    OptionError
        If it cannot be read, or has a key or a type that no audit knows.
    """
    if path is None:
        return {}
    found = read_features(path, "audit file")
    for key, value in found.items():
        if key not in _KEYS:
            raise OptionError(f"{path} has the unknown key {key!r}; known are {', '.join(_KEYS)}.")
        if not isinstance(value, _KEYS[key]) or (isinstance(value, bool) and key != "target"):
            kinds = " or ".join(kind.__name__ for kind in _KEYS[key])
            raise OptionError(f"{path}: {key} is {value!r}; it must be of the kind {kinds}.")
    for key in found.get("query", {}):
        if key not in QUERY:
            raise OptionError(f"{path}: query has the unknown key {key!r}; known are {', '.join(QUERY)}.")
    for key in ("features", "background"):
        if isinstance(found.get(key), str):
            found[key] = str(Path(path).parent / found[key])
    return found
