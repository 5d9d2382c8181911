"""What must hold of an answer besides the target: further models, plausibility, support (design, section 5).

Each becomes a member of the merged ensemble and a condition on its score; neither map nor search knows the difference.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gpucf._change_rules import ChangeRules
from gpucf._ensemble import Ensemble, Member
from gpucf._errors import ModelError, OptionError
from gpucf._judge import Judge
from gpucf._labels import class_rule, score_rule
from gpucf._loaders import load_model, open_judge
from gpucf._loaders._sklearn_isolation import isolation_ensemble, isolation_judge, isolation_rule
from gpucf._predict import leaf_indices
from gpucf._rules import Rules
from gpucf._targets import CLASS_INDEX, RAW, Condition, resolve_target

if TYPE_CHECKING:
    from gpucf._table import Table

_log = logging.getLogger("gpucf")


@dataclass(frozen=True)
class Agreed:
    """Members beside the user's model, their judges, and what they must say.

    ``fixed`` conditions hold of every answer. A member in ``same_class`` must give one of the classes that the
    alternative allows the user's model. ``demands`` are those of `changes`, which hold where a row's way of keeping a
    rule about moves demands them. ``open_again`` gives each judge anew, where the engine was pickled.
    """

    members: tuple[Member, ...] = ()
    judges: tuple[Judge | None, ...] = ()
    fixed: tuple[Condition, ...] = ()
    same_class: tuple[int, ...] = ()
    rules: Rules | None = None
    changes: ChangeRules | None = None
    demands: tuple[Condition, ...] = ()
    open_again: tuple[Callable[[], Judge | None], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.members)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the judges, which hold the libraries' own functions."""
        return {k: v for k, v in self.__dict__.items() if k != "judges"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, judges=tuple(map(_opened, state["open_again"])))

    def with_rules(self, rules: Rules, main: Ensemble) -> Agreed:
        """With rules as one more member."""
        more = self._with_member(rules.ensemble(main), rules.judge)
        return replace(more, fixed=(*self.fixed, _at_least_0(more.members)), rules=rules)

    def with_changes(self, changes: ChangeRules, main: Ensemble) -> Agreed:
        """With the conditions of rules about moves as further members."""
        out, demands = self, []
        ensembles = changes.ensembles(main)
        for condition, ensemble in zip(changes.conditions, ensembles, strict=False):
            out = out._with_member(ensemble, condition.judge)
            demands.append(_at_least_0(out.members))
        for ensemble in ensembles[len(changes.conditions) :]:  # it says nothing, but tells values apart
            out = out._with_member(ensemble, _no_judge)
        return replace(out, changes=changes, demands=tuple(demands))

    def _with_member(self, ensemble: Ensemble, judge: Callable[[], Judge | None]) -> Agreed:
        member = Member(ensemble, np.arange(ensemble.n_features))
        return replace(
            self, members=(*self.members, member), judges=(*self.judges, judge()),
            open_again=(*self.open_again, judge),
        )  # fmt: skip

    def check_rows(self, X: np.ndarray) -> None:
        """Refuse rows that some rule cannot tell apart."""
        for rules in (self.rules, self.changes):
            if rules is not None:
                rules.check_rows(X)

    def conditions(self, main: Ensemble, alternative: Sequence[Condition]) -> list[Condition]:
        """What one alternative of a target demands of the members.

        Raises
        ------
        OptionError
            If a member must agree on the class, but the target does not speak of classes.
        """
        out = list(self.fixed)
        for number in self.same_class:
            asked = [c for c in alternative if c.member == 0 and c.asked == CLASS_INDEX]
            if not asked:
                raise OptionError(
                    "a model of agree= was given without a target of its own, which means the class that is asked of "
                    "the user's model; but the target is no class. Give agree=[(model, target)]."
                )
            other = self.members[number - 1].ensemble
            allowed = {_plain(main.classes, k) for c in asked for k in np.flatnonzero(c.yes)}
            yes = np.array([_plain(other.classes, k) in allowed for k in range(other.n_classes)])
            out.append(Condition(class_rule(other), yes, CLASS_INDEX, member=number))
        return out


def agreements(
    main: Ensemble, background: Table | None, agree: Any, plausible: Any, min_support: Any, trust_pickle: bool
) -> Agreed:
    """Read what was asked for.

    Parameters
    ----------
    agree : sequence of models or of pairs (model, target)
    plausible : fitted IsolationForest, or a pair of it and the least ``decision_function``
    min_support : int, optional
        Least number of background rows in each tree's leaf.
    """
    members: list[Member] = []
    judges: list[Callable[[], Judge | None]] = []
    fixed: list[Condition] = []
    same_class: list[int] = []
    for model, target in _pairs(agree):
        ensemble = load_model(model, trust_pickle=trust_pickle)
        members.append(Member(ensemble, _columns(main, ensemble, f"the {ensemble.model_type} of agree=")))
        judges.append(partial(open_judge, model, ensemble, trust_pickle))
        if target is None:
            _check_classes(main, ensemble)
            same_class.append(len(members))
            continue
        alternatives = resolve_target(ensemble, target).alternatives
        if len(alternatives) != 1 or (isinstance(target, str) and target in ("opposite", "any_other")):
            raise OptionError(
                f"agree= has target {target!r} for {ensemble.model_type}; give a class, a probability or a score, "
                "or several of them joined by gpucf.AllOf."
            )
        fixed += [replace(c, member=len(members)) for c in alternatives[0]]
    if plausible is not None:
        forest, threshold = _plausible(plausible)
        ensemble = isolation_ensemble(forest)
        members.append(Member(ensemble, _columns(main, ensemble, "the IsolationForest of plausible=")))
        judges.append(partial(isolation_judge, forest))
        rule = isolation_rule(forest, ensemble, threshold)
        fixed.append(Condition(rule, np.array([False, True]), RAW, 0, threshold, member=len(members)))
    if min_support is not None:
        members.append(Member(_support(main, background, min_support), np.arange(main.n_features)))
        judges.append(_no_judge)
        fixed.append(_at_least_0(members))
    opened = tuple(judge() for judge in judges)
    return Agreed(tuple(members), opened, tuple(fixed), tuple(same_class), open_again=tuple(judges))


def _no_judge() -> None:
    """The reference predictor does."""


def _opened(judge: Callable[[], Judge | None]) -> Judge | None:
    try:
        return judge()
    except (ModelError, ImportError) as error:
        _log.warning("a model cannot be opened here (%s); the reference predictor will check answers", error)
        return None


def _at_least_0(members: Sequence[Member]) -> Condition:
    """Of the last member."""
    rule = score_rule(members[-1].ensemble, 0, 0.0)
    return Condition(rule, np.array([False, True]), RAW, 0, 0.0, member=len(members))


def _plain(classes: np.ndarray | None, k: Any) -> Any:
    return None if classes is None else classes.tolist()[int(k)]


def _pairs(agree: Any) -> list[tuple[Any, Any]]:
    if agree is None:
        return []
    if not isinstance(agree, list | tuple):
        raise OptionError("agree is not a list; give a list of models, or of pairs (model, target).")
    out = []
    for item in agree:
        pair = isinstance(item, tuple)
        if pair and len(item) != 2:
            raise OptionError(f"agree has a tuple of {len(item)} things; give pairs (model, target).")
        out.append((item[0], item[1]) if pair else (item, None))
    return out


def _plausible(plausible: Any) -> tuple[Any, float]:
    forest, threshold = plausible if isinstance(plausible, tuple) and len(plausible) == 2 else (plausible, 0.0)
    real = isinstance(threshold, int | float | np.number) and not isinstance(threshold, bool)
    if not real or not np.isfinite(threshold):
        raise OptionError(
            f"the threshold of plausible= is {threshold!r}; give a finite number (0: scikit-learn's own)."
        )
    return forest, float(threshold)


def _columns(main: Ensemble, other: Ensemble, what: str) -> np.ndarray:
    """The user's column for each column of another model: by name where both have names, else by position."""
    if main.has_names and other.has_names:
        where = {name: c for c, name in enumerate(main.feature_names)}
        unknown = [n for n in other.feature_names if n not in where]
        if unknown:
            raise ModelError(
                f"{what} needs column {unknown[0]!r}, which the model does not have; answers are made in the model's "
                f"columns ({', '.join(map(repr, main.feature_names[:6]))}, ...)."
            )
        return np.asarray([where[n] for n in other.feature_names])
    if other.n_features != main.n_features:
        raise ModelError(f"{what} has {other.n_features} columns, the model has {main.n_features}.")
    return np.arange(main.n_features)


def _check_classes(main: Ensemble, other: Ensemble) -> None:
    if other.classes is None or main.classes is None:
        raise ModelError(f"{other.model_type} of agree= and the model must both be classifiers; or give a target.")
    ours, theirs = set(main.classes.tolist()), set(other.classes.tolist())
    if not theirs <= ours and not ours <= theirs:
        raise ModelError(
            f"{other.model_type} of agree= has classes {sorted(map(str, theirs))}, the model {sorted(map(str, ours))}; "
            "give it a target of its own: agree=[(model, target)]."
        )


def _support(main: Ensemble, background: Table | None, min_support: Any) -> Ensemble:
    """The model's trees with leaves 0, or -1 where fewer than `min_support` background rows lie."""
    if isinstance(min_support, bool) or not isinstance(min_support, int | np.integer) or min_support < 1:
        raise OptionError(f"min_support is {min_support!r}; give a whole number of at least 1.")
    if background is None:
        raise OptionError(f"min_support={min_support} counts background rows: build the engine with background=.")
    leaves = leaf_indices(main, background.values)
    count = np.bincount(leaves.ravel(), minlength=len(main.leaf_value))
    return replace(
        main,
        model_type=f"leaves of {main.model_type} with at least {min_support} background rows",
        task="regression",
        classes=None,
        score_dtype=np.dtype(np.float64),
        leaf_value=np.where(count >= min_support, 0.0, -1.0)[:, None],
        tree_output=np.zeros(main.n_trees, np.int32),
        base=np.zeros(1),
        decision="none",
        probability="none",
        post="none",
    )
