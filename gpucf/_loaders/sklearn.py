"""scikit-learn: trees, forests, boosting, pipelines and calibration around them; and skops, pickle and joblib files.

A pickle or joblib file may hold a model of any library: this module opens it (only when the user trusts it), and the
object inside goes to whichever loader claims it.
"""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

from gpucf._ensemble import Ensemble
from gpucf._errors import ModelError
from gpucf._judge import Judge
from gpucf._loaders import _calibrated, _pipeline
from gpucf._loaders import _sklearn_boosting as boosting
from gpucf._loaders import _sklearn_common as common
from gpucf._loaders import _sklearn_forest as forest
from gpucf._loaders._nesting import is_wrapper
from gpucf._loaders._wrapper_judge import wrapper_judge

_PICKLE_SUFFIXES = {".pkl", ".pickle", ".joblib", ".pckl"}
# What joblib writes when it compresses: zlib, gzip, bzip2, xz, lzma, lz4.
_ZLIB_HEADS = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
_JOBLIB_HEADS = (*_ZLIB_HEADS, b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x5d\x00", b"\x04\x22\x4d\x18")

# What skops does not trust by itself but such models are made of; everything else is refused by name.
_SKOPS_TYPES = {
    "functools.partial",
    "numpy.dtype",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.metrics._classification.balanced_accuracy_score",
    "sklearn.metrics._scorer._CurveScorer",
    "sklearn.metrics._scorer._Scorer",
    "sklearn.tree._tree.Tree",
    "sklearn.utils._metadata_requests.MetadataRequest",
    "sklearn.utils._metadata_requests.MethodMetadataRequest",
    "sklearn.utils.validation.check_array",
}


def claims(obj: Any) -> bool:
    """Whether the object is scikit-learn's, or derives from one of the classes read here."""
    return common.is_sklearn(obj) or common.supported_base(obj) is not None


def from_object(obj: Any, iterations: int | str | None = None) -> Ensemble:
    """A fitted scikit-learn model as an `Ensemble`."""
    name = common.kind(obj)
    if is_wrapper(obj):
        return (_pipeline.from_pipeline if name == "Pipeline" else _calibrated.from_wrapper)(obj, iterations)
    common.refuse_by_name(obj)
    if name in common.HIST_BOOSTING:
        return boosting.from_hist_gradient_boosting(obj, iterations)
    if name in common.BOOSTING:
        return boosting.from_gradient_boosting(obj, iterations)
    return forest.from_forest(obj, iterations)


def judge(obj: Any, ensemble: Ensemble) -> Judge:
    """The model's own predict (see `gpucf._judge.Judge`)."""
    import sklearn

    if is_wrapper(obj):
        return wrapper_judge(obj, ensemble)
    name = f"scikit-learn {sklearn.__version__}"
    if common.kind(obj) in common.BOOSTING | common.HIST_BOOSTING:
        return boosting.boosting_judge(obj, ensemble, name)
    return forest.forest_judge(obj, ensemble, name)


def claims_file(head: bytes, path: Path) -> bool:
    """Whether the file looks like a skops, pickle or joblib file."""
    return is_pickle(head, path) or head.startswith(b"PK\x03\x04")


def is_pickle(head: bytes, path: Path) -> bool:
    """Whether opening the file could run code that it brings along."""
    if head.startswith(b"PK\x03\x04"):
        return False
    if len(head) > 1 and head[0] == 0x80 and head[1] <= 5:
        return True
    return head.startswith(_JOBLIB_HEADS) or path.suffix.lower() in _PICKLE_SUFFIXES


def from_file(path: Path, iterations: int | str | None = None) -> Ensemble:
    """The model in a skops, pickle or joblib file; the caller has asked whether a pickle may be opened."""
    from gpucf import _loaders

    obj = open_native(path)
    if isinstance(obj, str | bytes | Path):
        raise ModelError.unsupported(str(path), f"it holds a {type(obj).__name__}, not a model")
    return _loaders.load_model(obj, iterations=iterations)


def open_native(path: Path) -> Any:
    """The object in the file."""
    path = Path(path)
    with open(path, "rb") as f:
        head = f.read(8)
    return _open_skops(path) if head.startswith(b"PK\x03\x04") else _open_pickle(path)


def _open_pickle(path: Path) -> Any:
    """Unpickle, with joblib where it is installed (it reads plain pickles as well as its own format)."""
    try:
        import joblib
    except ImportError:
        joblib = None
    try:
        if joblib is not None:
            return joblib.load(path)
        with open(path, "rb") as f:
            return pickle.load(f)
    except ModuleNotFoundError as error:
        raise ModelError(f"{path} needs the package {error.name!r}, which is not installed here.") from error
    except Exception as error:  # a damaged pickle may raise anything at all
        raise ModelError.damaged(str(path), f"it cannot be unpickled ({type(error).__name__}: {error})") from error


def _open_skops(path: Path) -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise ModelError(f"{path} is a skops file; install skops to open it.") from error
    try:
        untrusted = set(skops.io.get_untrusted_types(file=path))
        foreign = sorted(t for t in untrusted if t not in _SKOPS_TYPES)
        if not foreign:
            return skops.io.load(path, trusted=sorted(untrusted))
    except (MemoryError, KeyboardInterrupt):
        raise
    except (zipfile.BadZipFile, Exception) as error:  # a damaged file may raise anything at all
        raise ModelError.damaged(str(path), f"skops cannot open it ({type(error).__name__}: {error})") from error
    raise ModelError.unsupported(
        str(path),
        f"it holds {', '.join(foreign)}, which are not parts of a scikit-learn model that gpucf reads",
    )
