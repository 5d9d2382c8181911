"""Files of features: YAML or JSON."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpucf._errors import OptionError

if TYPE_CHECKING:
    from gpucf._features import Features

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# Words that YAML readers, ours or others, take for something else than text.
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"}


def read_features(path: str | os.PathLike[str], what: str = "features file") -> dict[str, Any]:
    """The mapping that a ``.yaml``, ``.yml`` or ``.json`` file holds; `what` is what messages call it.

    Raises
    ------
    OptionError
        If the file cannot be read, is not valid, names a feature twice, or holds something else than a mapping.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (".json", ".yaml", ".yml"):
        raise OptionError(f"the {what} {path} is neither .yaml, .yml nor .json by its name.")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise OptionError(f"cannot read the {what} {path}: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise OptionError(f"the {what} {path} is not UTF-8 text: {error}.") from error
    found = _from_json(path, text, what) if suffix == ".json" else _from_yaml(path, text, what)
    if found is None:  # an empty file, or one of comments only
        return {}
    if not isinstance(found, dict):
        raise OptionError(f"the {what} {path} holds a {type(found).__name__}; it must hold names with entries.")
    return found


def _from_json(path: Path, text: str, what: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise OptionError(f"the {what} {path} has {twice[0]!r} twice.")
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise OptionError(f"the {what} {path} is not valid JSON: {error}.") from error


def _from_yaml(path: Path, text: str, what: str) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise OptionError(f"reading {path} needs PyYAML: pip install pyyaml, or write the file as JSON.") from error

    # As people expect: only true and false are booleans (not yes, no, on, off), dates are text, no name stands twice.
    Loader: Any = type("Loader", (yaml.SafeLoader,), {})
    resolvers = {first: list(known) for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()}
    for first, known in resolvers.items():
        if first in "yYnNoO":
            resolvers[first] = [r for r in known if r[0] != "tag:yaml.org,2002:bool"]
        resolvers[first] = [r for r in resolvers[first] if r[0] != "tag:yaml.org,2002:timestamp"]
    Loader.yaml_implicit_resolvers = resolvers

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        pairs = loader.construct_pairs(node, deep=True)
        found: dict[Any, Any] = {}
        for name, value in pairs:
            if name in found:
                raise OptionError(f"the {what} {path} has {name!r} twice.")
            found[name] = value
        return found

    Loader.add_constructor("tag:yaml.org,2002:map", mapping)
    try:
        return yaml.load(text, Loader)
    except (yaml.YAMLError, TypeError) as error:  # TypeError: a name that is itself a list or a mapping
        raise OptionError(f"the {what} {path} is not valid YAML: {' '.join(str(error).split())}.") from error


def write_features(features: Features, path: str | os.PathLike[str]) -> None:
    """Write a features file.

    Raises
    ------
    OptionError
        If the suffix is not known, an entry cannot stand in a file (a function), or the file cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() not in (".json", ".yaml", ".yml"):
        raise OptionError(f"the features file {path} is neither .yaml, .yml nor .json by its name.")
    text = json_text(features) if path.suffix.lower() == ".json" else yaml_text(features)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OptionError(f"cannot write the features file {path}: {error.strerror or error}.") from error


def json_text(features: Features) -> str:
    """The features as JSON."""
    return json.dumps({name: _plain(name, wish) for name, wish in features.given.items()}, indent=2) + "\n"


def yaml_text(features: Features, title: str = "") -> str:
    """The features as YAML: an entry a name, its notes as comments, a key a line."""
    lines = [f"# {line}" for line in title.splitlines()]
    for name, wish in features.given.items():
        wish = _plain(name, wish)
        if isinstance(wish, list) and name == "rules":
            lines += [""] * bool(lines) + ["rules:" + " []" * (not wish)] + [f"  - {_scalar(text)}" for text in wish]
            continue
        entry = {"kind": wish} if isinstance(wish, str) else wish
        if not isinstance(entry, dict):
            raise OptionError(f"features[{name!r}] is {entry!r}, which cannot be written to a file.")
        lines += [""] * bool(lines) + [f"{_scalar(str(name))}:" + " {}" * (not entry)]
        lines += [f"  # {line}" for line in features.notes.get(name, ())]
        lines += [f"  {key}: {_flow(value)}" for key, value in entry.items()]
    return "\n".join(lines) + "\n"


def _plain(name: Any, value: Any) -> Any:
    """Dicts, lists, text, numbers and None out of what a caller has given."""
    if isinstance(value, Mapping):
        return {key: _plain(name, v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(name, v) for v in value]
    if hasattr(value, "item"):  # numpy's numbers
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise OptionError(f"features[{name!r}] holds {value!r}, which cannot be written to a file.")


def _flow(value: Any) -> str:
    """A value on one line, as YAML and (nearly) as JSON."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(key)}: {_flow(v)}" for key, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
        return value if plain else json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return ".inf" if value > 0 else "-.inf"
    text = json.dumps(value)
    # Readers of YAML 1.1 take 1e-07 for text.
    return re.sub(r"^(-?\d+)e", r"\1.0e", text)
