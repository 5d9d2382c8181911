"""Targets: what a caller wants the model to say, as labels of a rule."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpucf._ensemble import Ensemble
from gpucf._errors import OptionError
from gpucf._labels import LabelRule, class_rule, probability_rule

OPPOSITE, ANY_OTHER = "opposite", "any_other"
_PROBABILITY = re.compile(r"\s*probability\s*>=\s*(?P<p>\S+)\s*\Z")


@dataclass(frozen=True)
class Probability:
    """Target: the library's probability of a class is at least a number.

    Parameters
    ----------
    at_least : float
        In (0, 1]. Compared with the library's probability, widened to float64, as real numbers.
    label : optional
        The class, as in ``classes_``; the second class of a binary model if not given.

    Examples
    --------
    >>> import gpucf
    >>> gpucf.Probability(0.8)
    Probability(at_least=0.8, label=None)
    """

    at_least: float
    label: Any = None


@dataclass(frozen=True, eq=False)
class Target:
    """A target resolved against a model.

    Attributes
    ----------
    rule : LabelRule
    labels : bool array of shape (n_labels,) or None
        Labels that meet the target; None: every label but the row's own ("opposite", "any_other").
    klass : int
        Class index that the target is about, -1 where it depends on the row.
    at_least : float or None
        For probability targets, the least probability of that class.
    """

    text: str
    rule: LabelRule
    labels: np.ndarray | None
    klass: int = -1
    at_least: float | None = None

    def wanted(self, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For the rows' own labels: which labels each row may go to, and which rows meet the target already."""
        n = len(own)
        if self.labels is None:
            wanted = np.ones((n, self.rule.n_labels), bool)
            wanted[np.arange(n), own] = False
            return wanted, np.zeros(n, bool)
        already = self.labels[own]
        wanted = np.broadcast_to(self.labels, (n, len(self.labels))).copy()
        wanted[already] = False
        return wanted, already


def resolve_target(ensemble: Ensemble, target: Any) -> Target:
    """Turn what the caller gave into a `Target`, or say what can be given."""
    if ensemble.task == "regression" or ensemble.classes is None:
        raise OptionError(
            f"the model ({ensemble.model_type}) predicts numbers, not classes; this version answers for classifiers."
        )
    classes = ensemble.classes.tolist()
    label = _match_label(classes, target)
    if label is not None:
        return _class_target(ensemble, label)
    if isinstance(target, str):
        if target == OPPOSITE:
            if len(classes) != 2:
                raise OptionError(
                    f'target "opposite" is for two classes, but the model has {len(classes)} '
                    f'({_shown(classes)}); use target="any_other", or a class label.'
                )
            return Target(OPPOSITE, class_rule(ensemble), None)
        if target == ANY_OTHER:
            return Target(ANY_OTHER, class_rule(ensemble), None)
        match = _PROBABILITY.match(target)
        if match:
            try:
                target = Probability(float(match["p"]))
            except ValueError:
                raise OptionError(f"target {target!r} has no number behind >=.") from None
    if isinstance(target, Probability):
        return _probability_target(ensemble, target, classes)
    raise OptionError(
        f"target {target!r} is not a class of the model ({_shown(classes)}); give a class, "
        f'"opposite" (two classes), "any_other", or "probability >= p".'
    )


def _shown(classes: list[Any]) -> str:
    return ", ".join(map(repr, classes[:10])) + (", ..." if len(classes) > 10 else "")


def _match_label(classes: list[Any], target: Any) -> int | None:
    """Index of a class label: equal, or, for text from a command line, equal when written out."""
    if isinstance(target, np.generic):
        target = target.item()
    if not isinstance(target, bool | int | float | str | bytes):
        return None
    for i, c in enumerate(classes):
        if (
            isinstance(c, bool) == isinstance(target, bool)
            and isinstance(c, str) == isinstance(target, str)
            and c == target
        ):
            return i
    if isinstance(target, str):
        written = [str(c) for c in classes]
        if written.count(target) == 1:
            return written.index(target)
    return None


def _class_target(ensemble: Ensemble, label: int) -> Target:
    rule = class_rule(ensemble)
    labels = np.zeros(rule.n_labels, bool)
    labels[label] = True
    return Target(f"class {ensemble.classes.tolist()[label]!r}", rule, labels, label)  # type: ignore[union-attr]


def _probability_target(ensemble: Ensemble, target: Probability, classes: list[Any]) -> Target:
    p = target.at_least
    number: Any = p
    if isinstance(number, bool) or not isinstance(number, int | float | np.number) or not 0.0 < float(number) <= 1.0:
        raise OptionError(f"the target probability is {p!r}; give a number above 0 and at most 1.")
    if ensemble.probability == "none":
        raise OptionError(f"the model ({ensemble.model_type}) gives no probabilities; use a class as target.")
    if target.label is None and len(classes) != 2:
        raise OptionError(
            f"the model has {len(classes)} classes ({_shown(classes)}); say which one: "
            f"gpucf.Probability({p!r}, label=...)."
        )
    k = 1 if target.label is None else _match_label(classes, target.label)
    if k is None:
        raise OptionError(f"target label {target.label!r} is not a class of the model ({_shown(classes)}).")
    rule, label = probability_rule(ensemble, k, float(p))
    labels = np.zeros(rule.n_labels, bool)
    labels[label] = True
    return Target(f"probability of {classes[k]!r} >= {float(p)!r}", rule, labels, k, float(p))
