"""What people type for options that the library takes as lists and dicts: short forms, JSON, or a JSON file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from gpucf._errors import OptionError
from gpucf._features_file import read_features


def names(option: str, texts: list[str]) -> list[str]:
    """``a,b`` or ``["a", "b"]``, possibly given several times."""
    out: list[str] = []
    for text in texts:
        if text.lstrip().startswith("["):
            given = _json(option, text)
            if not all(isinstance(name, str) for name in given):
                raise OptionError(f"{option} is {text}; give a JSON list of names.")
            out += given
        else:
            out += [name.strip() for name in text.split(",") if name.strip()]
    return out


def weights(option: str, texts: list[str]) -> dict[str, float] | None:
    """``name=2.0,...`` (the name may hold ``=``), JSON, or a JSON file, possibly given several times."""
    out: dict[str, float] = {}
    for text in texts:
        given = _object(option, text)
        if given is None:
            given = {}
            for part in text.split(","):
                name, sign, number = part.rpartition("=")
                try:
                    given[name.strip()] = float(number)
                except ValueError:
                    sign = ""
                if not sign:
                    raise OptionError(f"{option} has {part!r}; give name=number, such as age=2.0.")
        for name, value in given.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise OptionError(f"{option} gives {name!r} the weight {value!r}; give a number.")
        out.update(given)
    return out or None


def one_hot(option: str, texts: list[str]) -> dict[str, list[str]] | None:
    """``GROUP=col1,col2`` (the columns may hold ``=``), JSON, or a JSON file, possibly given several times."""
    out: dict[str, list[str]] = {}
    for text in texts:
        given = _object(option, text)
        if given is None:
            group, sign, columns = text.partition("=")
            if not sign:
                raise OptionError(f"{option} is {text!r}; give GROUP=column1,column2 or a JSON file.")
            given = {group.strip(): [c.strip() for c in columns.split(",") if c.strip()]}
        for group, columns in given.items():
            if not isinstance(columns, list) or not all(isinstance(c, str) for c in columns):
                raise OptionError(f"{option} gives {group!r} the columns {columns!r}; give a list of names.")
        out.update(given)
    return out or None


def features(option: str, texts: list[str]) -> dict[str, Any] | None:
    """A YAML or JSON file, or JSON, possibly given several times."""
    out: dict[str, Any] = {}
    for text in texts:
        if text.lower().endswith((".yaml", ".yml")):
            given: dict[str, Any] | None = read_features(text)
        else:
            given = _object(option, text)
        if given is None:
            raise OptionError(
                f'{option} is {text!r}; give a .yaml or .json file, or JSON such as {{"age": "integer"}}.'
            )
        both = [source["rules"] for source in (out, given) if isinstance(source.get("rules"), list)]
        out.update(given)
        if len(both) == 2:
            out["rules"] = both[0] + both[1]
    return out or None


def cost(option: str, text: str) -> str | dict[str, float]:
    """A name, or a mixture as JSON or a JSON file; the engine looks at what it says."""
    given = _object(option, text)
    return text if given is None else given


def iterations(option: str, text: str | None) -> int | str | None:
    """A count or ``all``."""
    if text is None or text == "all":
        return text
    try:
        return int(text)
    except ValueError:
        raise OptionError(f'{option} is {text!r}; give a count, or "all".') from None


def node_limit(option: str, text: str | None) -> int | None:
    """A whole number; the engine looks at its size."""
    try:
        return None if text is None else int(text)
    except ValueError:
        raise OptionError(f"{option} is {text!r}; give a whole number of at least 1.") from None


def time_limit(option: str, text: str | None) -> float | None:
    """Seconds above 0."""
    try:
        seconds = None if text is None else float(text)
    except ValueError:
        seconds = 0.0
    if seconds is not None and not seconds > 0.0:
        raise OptionError(f"{option} is {text!r}; give a number of seconds above 0.")
    return seconds


def canonical(args: argparse.Namespace) -> dict[str, Any]:
    """The options that decide the answers, parsed, for the engine and for the metadata of the output."""
    scale = args.scale if args.scale is not None else ("range" if args.background else "none")
    return {
        "target": args.target,
        "cost": cost("--cost", args.cost),
        "weights": weights("--weights", args.weights),
        "scale": None if scale == "none" else scale,
        "immutable": names("--immutable", args.immutable),
        "increase_only": names("--increase-only", args.increase_only),
        "decrease_only": names("--decrease-only", args.decrease_only),
        "only": names("--only", args.only) or None,
        "carry": names("--carry", args.carry),
        "options": args.options,
        "region": args.regions,
        "one_hot": one_hot("--one-hot", args.one_hot),
        "features": features("--features", args.features),
        "rules": args.rule or None,
        "iterations": iterations("--iterations", args.iterations),
        "node_limit": node_limit("--node-limit", args.node_limit),
        "time_limit_s": time_limit("--time-limit", args.time_limit),
    }


def _object(option: str, text: str) -> dict[str, Any] | None:
    """A JSON object given in place or as a file, or None if `text` is neither."""
    if text.lower().endswith(".json"):
        try:
            text = Path(text).read_text(encoding="utf-8")
        except OSError as error:
            raise OptionError(f"cannot read the file of {option}, {text}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise OptionError(f"the file of {option} is not UTF-8 text: {error}") from error
    elif not text.lstrip().startswith("{"):
        return None
    given = _json(option, text)
    if not isinstance(given, dict):
        raise OptionError(f"{option} holds a JSON {type(given).__name__}; give a JSON object.")
    return given


def _json(option: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise OptionError(f"{option} is not valid JSON: {error}") from error
