"""Targets resolved against a model: conditions on its label, probability or score (design, section 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpucf._ensemble import Ensemble
from gpucf._errors import OptionError
from gpucf._labels import LabelRule, class_rule, compound_rule, lead_rule, probability_rule, score_rule
from gpucf._links import lead_of
from gpucf._predict import raw_from_sums
from gpucf._wishes import ANY_OTHER, OPPOSITE, AllOf, AnyOf, Probability, Score, read_text

CLASS_INDEX, PROBABILITIES, RAW = "class_index", "probability", "raw"
_MOST_ALTERNATIVES = 1000


@dataclass(frozen=True, eq=False)
class Condition:
    """One condition on what one model says.

    Attributes
    ----------
    rule : LabelRule
        Simple.
    yes : bool array of shape (n_labels,)
        Labels of the rule that meet the condition.
    asked : {"class_index", "probability", "raw"}
        What the library is asked to confirm it (see `Judge`).
    column : int
        Class or output that it is about.
    bound : float
    reached : int
        For probabilities and scores: the label that means "at least `bound`".
    member : int
        Position of the model among those that are asked; 0 is the user's model.
    lead : bool
        The bound is on what the score of `column` exceeds every other by.
    """

    rule: LabelRule
    yes: np.ndarray
    asked: str
    column: int = 0
    bound: float = 0.0
    reached: int = 1
    member: int = 0
    lead: bool = False

    def judged(self, said: np.ndarray) -> np.ndarray:
        """Label of each row by what the library said when it was asked for `asked`."""
        if self.asked == CLASS_INDEX:
            return said
        number = lead_of(said, self.column) if self.lead else said[:, self.column].astype(np.float64)
        at_least = number >= self.bound
        return np.where(at_least, self.reached, 1 - self.reached)


@dataclass(frozen=True, eq=False)
class Target:
    """A target resolved against a model.

    Attributes
    ----------
    rule : LabelRule
    labels : bool array of shape (n_labels,) or None
        Labels that meet the target; None: every label but the row's own ("opposite", "any_other").
    alternatives : tuple of tuples of Condition
        The target holds where all conditions of some alternative hold. For a simple rule, one condition.
    """

    text: str
    rule: LabelRule
    labels: np.ndarray | None
    alternatives: tuple[tuple[Condition, ...], ...]

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

    def judged(self, say: Callable[[Condition], np.ndarray]) -> np.ndarray:
        """Labels of the rule by what the libraries say; `say` gives the answers to one condition's question."""
        if not self.rule.compound:
            condition = self.alternatives[0][0]
            return condition.judged(say(condition))
        meets: Any = False
        for conditions in self.alternatives:
            holds: Any = True
            for c in conditions:
                holds = holds & c.yes[c.judged(say(c))]
            meets = meets | holds
        return np.asarray(meets).astype(np.int64)


Also = Callable[[Ensemble, Sequence[Condition]], list[Condition]]


def _nothing_else(main: Ensemble, alternative: Sequence[Condition]) -> list[Condition]:
    return []


def resolve_target(
    ensemble: Ensemble, target: Any, space: Ensemble | None = None, also: Also = _nothing_else, margin: float = 0.0
) -> Target:
    """Turn what the caller gave into a `Target`, or say what can be given.

    Parameters
    ----------
    ensemble : Ensemble
        The user's model.
    space : Ensemble, optional
        The merged ensemble that it is the first member of.
    also : callable
        What else an alternative of the target demands, of further models.
    margin : float
        By how much the score of a class target shall go beyond what just suffices; of a model with a score for each
        class, beyond that of every other class.
    """
    wish = _readable(ensemble, target)
    if own_label_targets(ensemble, wish):
        rule = _differs(ensemble, wish)
        return Target(wish, rule, None, ((Condition(rule, np.ones(rule.n_labels, bool), CLASS_INDEX),),))
    alternatives = [[*c, *also(ensemble, c)] for c in _alternatives(ensemble, wish, margin)]
    return target_of(space or ensemble, alternatives, _text(ensemble, wish))


def own_label_targets(ensemble: Ensemble, target: Any) -> bool:
    """Whether a target depends on the row's own class."""
    if not isinstance(target, str) or target not in (OPPOSITE, ANY_OTHER):
        return False
    return _match_label(_classes(ensemble), target) is None


def class_target(
    ensemble: Ensemble, space: Ensemble, classes: np.ndarray, also: Also, text: str, margin: float
) -> Target:
    """The target "one of these classes", by position; see `resolve_target`."""
    # One alternative a class: models that must agree shall say the same class, not each one of several.
    alternatives = [_class_condition(ensemble, int(k), margin) for k in np.flatnonzero(classes)]
    return target_of(space, [[*c, *also(ensemble, c)] for c in alternatives], text)


def target_of(ensemble: Ensemble, alternatives: Sequence[Sequence[Condition]], text: str) -> Target:
    """Lay alternatives of conditions out as one rule: a simple one where one condition says it all."""
    frozen = tuple(tuple(conditions) for conditions in alternatives)
    if len(frozen) == 1 and len(frozen[0]) == 1 and not ensemble.members:
        return Target(text, frozen[0][0].rule, frozen[0][0].yes, frozen)
    if len(frozen) > _MOST_ALTERNATIVES:
        raise OptionError(f"target {text} has {len(frozen):,} alternatives; at most {_MOST_ALTERNATIVES:,} are taken.")
    return Target(text, compound_of(ensemble, frozen), np.array([False, True]), frozen)


def compound_of(merged: Ensemble, alternatives: Sequence[Sequence[Condition]]) -> LabelRule:
    """The compound rule of conditions on the members of a merged ensemble, or on a single one."""
    first = np.cumsum([0] + [m.ensemble.n_outputs for m in merged.members])
    return compound_rule([[(c.rule, c.yes.tolist(), int(first[c.member])) for c in cs] for cs in alternatives])


def search_rule(ensemble: Ensemble, target: Target) -> tuple[LabelRule, int | None]:
    """Rule and wanted label for the search; None: every label but the row's own."""
    if target.labels is None:
        return target.rule, None
    yes = np.flatnonzero(target.labels)
    if len(yes) == 1:
        return target.rule, int(yes[0])
    return compound_of(ensemble, target.alternatives), 1  # a set of labels


def _classes(ensemble: Ensemble) -> list[Any]:
    return [] if ensemble.classes is None else ensemble.classes.tolist()


def _readable(ensemble: Ensemble, target: Any) -> Any:
    """The wish behind a target: a label stays one, text becomes what it says, a list means any of its members."""
    if _match_label(_classes(ensemble), target) is None:
        if isinstance(target, list | tuple | set | frozenset):
            target = AnyOf(*target)
        elif isinstance(target, str) and target not in (OPPOSITE, ANY_OTHER):
            target = read_text(target) or target
    if isinstance(target, AnyOf | AllOf):
        return type(target)(*(_readable(ensemble, t) for t in target.targets))
    return target


def _differs(ensemble: Ensemble, wish: str) -> LabelRule:
    classes = _classes(ensemble)
    if not classes:
        raise OptionError(
            f"the model ({ensemble.model_type}) predicts numbers, not classes; give a range of numbers as target: "
            "gpucf.Score(at_least=..., below=...)."
        )
    if wish == OPPOSITE and len(classes) != 2:
        raise OptionError(
            f'target "opposite" is for two classes, but the model has {len(classes)} '
            f'({_shown(classes)}); use target="any_other", or a class label.'
        )
    return class_rule(ensemble)


def _alternatives(ensemble: Ensemble, wish: Any, margin: float) -> list[list[Condition]]:
    """A wish in disjunctive form."""
    if isinstance(wish, AnyOf):
        return [c for t in wish.targets for c in _alternatives(ensemble, t, margin)]
    if isinstance(wish, AllOf):
        product: list[list[Condition]] = [[]]
        for t in wish.targets:
            product = [[*a, *b] for a in product for b in _alternatives(ensemble, t, margin)]
            if len(product) > _MOST_ALTERNATIVES:
                raise OptionError(f"target {wish!r} has more than {_MOST_ALTERNATIVES:,} alternatives; give fewer.")
        return product
    label = _match_label(_classes(ensemble), wish)
    if label is not None:
        return [_class_condition(ensemble, label, margin)]
    if isinstance(wish, Probability):
        return [_probability_conditions(ensemble, wish)]
    if isinstance(wish, Score):
        return [_score_conditions(ensemble, wish)]
    classes = _classes(ensemble)
    if not classes:
        raise OptionError(
            f"target {wish!r}: the model ({ensemble.model_type}) predicts numbers, not classes; give a range: "
            "gpucf.Score(at_least=..., below=...)."
        )
    raise OptionError(
        f"target {wish!r} is not a class of the model ({_shown(classes)}); give a class, "
        f'"opposite" (two classes), "any_other", "probability >= p", or limits by gpucf.Probability and gpucf.Score.'
    )


def _text(ensemble: Ensemble, wish: Any) -> str:
    if isinstance(wish, AnyOf | AllOf):
        word = " or " if isinstance(wish, AnyOf) else " and "
        return "(" + word.join(_text(ensemble, t) for t in wish.targets) + ")"
    classes = _classes(ensemble)
    label = _match_label(classes, wish)
    if label is not None:
        return f"class {classes[label]!r}"
    if isinstance(wish, Probability):
        k = 1 if wish.label is None else _match_label(classes, wish.label)
        return wish.shown(f"probability of {classes[k or 0]!r}")
    if isinstance(wish, Score):
        return wish.shown("score" if wish.label is None else f"score of {wish.label!r}")
    return str(wish)


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


def _class_condition(ensemble: Ensemble, label: int, margin: float) -> list[Condition]:
    yes = np.zeros(max(ensemble.n_classes, 2), bool)
    yes[label] = True
    rule = class_rule(ensemble)
    if not margin:
        return [Condition(rule, yes, CLASS_INDEX)]
    if not rule.is_threshold:  # a score for each class
        ahead = Condition(lead_rule(ensemble, label, margin), np.array([False, True]), RAW, label, margin, lead=True)
        return [Condition(rule, yes, CLASS_INDEX), ahead]
    just = raw_bound(ensemble, rule)
    limit = Score(at_least=just + margin) if label == 1 else Score(below=just - margin)
    return [Condition(rule, yes, CLASS_INDEX), *_score_conditions(ensemble, limit)]


def raw_bound(ensemble: Ensemble, rule: LabelRule) -> float:
    """The raw score of the least sum that a threshold rule gives label 1."""
    sums = np.zeros((1, ensemble.n_outputs), ensemble.score_dtype)
    sums[0, int(rule.output[0])] = rule.bound[0]
    return float(raw_from_sums(ensemble, sums)[0, int(rule.output[0])])


def _probability_conditions(ensemble: Ensemble, wish: Probability) -> list[Condition]:
    classes = _classes(ensemble)
    for number in (wish.at_least, wish.below):
        if number is not None and not 0.0 < float(number) <= 1.0:
            raise OptionError(f"the target probability is {number!r}; give a number above 0 and at most 1.")
    for number in (wish.above, wish.at_most):
        if number is not None and not 0.0 <= float(number) < 1.0:
            raise OptionError(f"the target probability is {number!r}; give a number of at least 0 and below 1.")
    if ensemble.probability == "none" or not classes:
        raise OptionError(
            f"the model ({ensemble.model_type}) gives no probabilities; use a class or a score as target."
        )
    if wish.label is None and len(classes) != 2:
        raise OptionError(
            f"the model has {len(classes)} classes ({_shown(classes)}); say which one: "
            f"gpucf.Probability(..., label=...)."
        )
    k = 1 if wish.label is None else _match_label(classes, wish.label)
    if k is None:
        raise OptionError(f"target label {wish.label!r} is not a class of the model ({_shown(classes)}).")
    out = []
    for bound, reached in ((wish.from_, True), (wish.before, False)):
        if bound is None:
            continue
        rule, label = probability_rule(ensemble, k, bound)
        yes = np.zeros(2, bool)
        yes[label if reached else 1 - label] = True
        out.append(Condition(rule, yes, PROBABILITIES, k, bound, label))
    return out


def _score_conditions(ensemble: Ensemble, wish: Score) -> list[Condition]:
    output = 0
    if ensemble.n_outputs > 1:
        classes = _classes(ensemble)
        found = _match_label(classes, wish.label) if wish.label is not None else 1 if len(classes) == 2 else None
        if found is None:
            raise OptionError(
                f"the model has a score for each of its classes ({_shown(classes)}); say which one: "
                f"gpucf.Score(..., label=...), not {wish.label!r}."
            )
        output = found
    elif wish.label is not None and _match_label(_classes(ensemble), wish.label) != 1:
        raise OptionError(
            f"Score(label={wish.label!r}): the model has one score, which rises with the second class; leave the "
            "label out and turn the limits round."
        )
    out = []
    for bound, reached in ((wish.from_, True), (wish.before, False)):
        if bound is not None:
            yes = np.array([not reached, reached])
            out.append(Condition(score_rule(ensemble, output, bound), yes, RAW, output, bound))
    return out
