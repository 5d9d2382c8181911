"""Loaders: one module per source library, each turning a model object or file into an `Ensemble`.

Each loader module has

- ``claims(obj) -> bool``: whether a model object is of this library (decided without importing the library);
- ``from_object(obj, iterations) -> Ensemble``, and where rows tell more than the object,
  ``from_object_with(obj, iterations, background) -> Ensemble``;
- ``judge(obj, ensemble) -> Judge``: the library's own predict for the verification of answers;
- ``claims_file(head, path) -> bool``, ``is_pickle(head, path) -> bool``: from the first bytes and the name of a file;
- ``from_file(path, iterations) -> Ensemble``, without the library where its format can be read without it;
- ``open_native(path)``: the library's own object, or None where the library is not installed.

Pickle and joblib files, of whatever library, are opened by the scikit-learn module.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from gpucf._ensemble import Ensemble
from gpucf._errors import ModelError, OptionError
from gpucf._judge import Judge

_HEAD_BYTES = 4096


def _modules() -> list[Any]:
    # By name: mypy's incremental runs lose submodules that a package imports from itself.
    return [import_module(f"gpucf._loaders.{name}") for name in ("xgboost", "lightgbm", "catboost", "sklearn")]


def load_model(
    model: Any, *, iterations: int | str | None = None, trust_pickle: bool = False, background: Any = None
) -> Ensemble:
    """Read a trained model, or the file of one, into an `Ensemble`.

    Parameters
    ----------
    model : model object, str or path
        XGBoost (Booster, sklearn wrappers, JSON or UBJSON file), LightGBM (Booster, wrappers, text file), scikit-learn
        (trees, forests, gradient boosting; pipelines and calibration around any of these models; skops file, or pickle
        with `trust_pickle`), CatBoost (model, or JSON export), or an `Ensemble`, which is returned as it is.
    iterations : "all", int or None
        None follows the library: ``best_iteration`` of an early-stopped model where the library's own ``predict``
        (wrapper) or the file says so. "all" uses every tree, an int the first rounds.
    trust_pickle : bool
        A pickle can run any code when it is opened; it is refused unless this is True.
    background : table, optional
        Rows like those of training. Only a CatBoost model object with categorical columns needs it: it knows its
        categories as hashes only.

    Raises
    ------
    ModelError
        If the model cannot be read *exactly*; the message names the reason.

    Examples
    --------
    >>> import gpucf
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> gpucf.load_model(RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y)).n_trees
    5
    """
    if iterations is not None and iterations != "all" and (not isinstance(iterations, int) or iterations < 1):
        raise OptionError(f'iterations is {iterations!r}; give "all", a count of at least 1, or None.')
    if isinstance(model, Ensemble):
        return model
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        ensemble: Ensemble = _module_for_file(path, trust_pickle).from_file(path, iterations)
        return ensemble
    for module in _modules():
        if module.claims(model):
            if background is not None and hasattr(module, "from_object_with"):
                ensemble = module.from_object_with(model, iterations, background)
            else:
                ensemble = module.from_object(model, iterations)
            return ensemble
    kind = f"{type(model).__module__}.{type(model).__qualname__}"
    raise ModelError.unsupported(kind, "gpucf reads tree ensembles of XGBoost, LightGBM, scikit-learn and CatBoost")


def open_judge(model: Any, ensemble: Ensemble, trust_pickle: bool = False) -> Judge | None:
    """The source library's own predict for a model object or file that `load_model` has read into `ensemble`.

    Returns None where the source library is not installed, or where the user handed in an `Ensemble`; answers are then
    checked by the reference predictor.

    Parameters
    ----------
    model : model object, str or path
        What `load_model` was given.
    ensemble : Ensemble
        What `load_model` returned; a judge uses as many rounds of the model as were read.
    trust_pickle : bool
        As in `load_model`.

    Raises
    ------
    ModelError
        If the file cannot be opened.
    """
    if isinstance(model, Ensemble):
        return None
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        model = _module_for_file(path, trust_pickle).open_native(path)
    for module in _modules():
        if module.claims(model):
            judge: Judge = module.judge(model, ensemble)
            return judge
    return None


def _module_for_file(path: Path, trust_pickle: bool) -> Any:
    try:
        with open(path, "rb") as f:
            head = f.read(_HEAD_BYTES)
    except OSError as error:
        raise ModelError(f"cannot read the model file {path}: {error.strerror or error}") from error
    if not head:
        raise ModelError.damaged(str(path), "the file is empty")
    for module in _modules():
        if module.claims_file(head, path):
            if module.is_pickle(head, path) and not trust_pickle:
                raise ModelError(
                    f"{path} is a pickle, which can run any code when opened. If you trust where it came from, pass "
                    "trust_pickle=True (command line: --trust-pickle); or save the model with skops instead."
                )
            return module
    raise ModelError.unsupported(
        str(path), "it is not an XGBoost JSON or UBJSON, LightGBM text, CatBoost JSON, skops or pickle file"
    )
