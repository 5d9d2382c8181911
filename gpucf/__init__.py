"""Exact nearest counterfactuals for tree ensembles, for whole tables, on the GPU or the CPU.

Importing the package loads none of its dependencies: each public name brings its module when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpucf._version import __version__

if TYPE_CHECKING:
    from gpucf._audit import audit
    from gpucf._audit_result import Audit
    from gpucf._engine import Engine
    from gpucf._ensemble import Ensemble
    from gpucf._errors import (
        FileFormatError,
        GpucfError,
        MapTooLargeError,
        ModelError,
        ModelTooLargeError,
        OptionError,
        TableError,
        VerificationError,
    )
    from gpucf._features import Features
    from gpucf._infer import infer_features
    from gpucf._loaders import load_model
    from gpucf._regionmap import RegionMap
    from gpucf._result import Result
    from gpucf._wishes import AllOf, AnyOf, Probability, Score

__all__ = [
    "AllOf",
    "AnyOf",
    "Audit",
    "Engine",
    "Ensemble",
    "Features",
    "FileFormatError",
    "GpucfError",
    "MapTooLargeError",
    "ModelError",
    "ModelTooLargeError",
    "OptionError",
    "Probability",
    "RegionMap",
    "Result",
    "Score",
    "TableError",
    "VerificationError",
    "__version__",
    "audit",
    "infer_features",
    "load_model",
]

# Public name -> module that holds it. What is here stands in __all__ and under TYPE_CHECKING as well; a test compares.
_HOMES = {
    "AllOf": "gpucf._wishes",
    "AnyOf": "gpucf._wishes",
    "Audit": "gpucf._audit_result",
    "Engine": "gpucf._engine",
    "Ensemble": "gpucf._ensemble",
    "Features": "gpucf._features",
    "FileFormatError": "gpucf._errors",
    "GpucfError": "gpucf._errors",
    "MapTooLargeError": "gpucf._errors",
    "ModelError": "gpucf._errors",
    "ModelTooLargeError": "gpucf._errors",
    "OptionError": "gpucf._errors",
    "Probability": "gpucf._wishes",
    "RegionMap": "gpucf._regionmap",
    "Result": "gpucf._result",
    "Score": "gpucf._wishes",
    "TableError": "gpucf._errors",
    "VerificationError": "gpucf._errors",
    "audit": "gpucf._audit",
    "infer_features": "gpucf._infer",
    "load_model": "gpucf._loaders",
}


def __getattr__(name: str) -> Any:
    if name == "plot":  # a module of its own, loaded when it is first used
        return import_module("gpucf.plot")
    if name not in _HOMES:
        raise AttributeError(f"module 'gpucf' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
