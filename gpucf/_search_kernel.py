"""Ensemble search, compiled: branch and bound on the trees themselves, one row at a time (design, section 7).

A node is a box of codes with its cost and, for each tree, the leaves that the box can still reach. Looking at a node:
drop it if its key cannot beat the best; *clip* every feature to the codes that the budget can still pay; *bound* the
score by the library's own sum over the best and worst reachable leaves; then drop it, take its nearest point as the new
best, or *branch* on an undecided split. A pass with a budget that ends without an answer proves that every answer costs
more; the next pass has a larger budget (*deepening*).

All arrays come from the caller (`gpucf._search`), so that nothing here counts references.
"""

from __future__ import annotations

import numpy as np

from gpucf._jit import inline, njit
from gpucf._labels import ASK, by_margin, outlook_of
from gpucf._prices import fill_tables
from gpucf._search_bound import bound_node, margin_outlook, weigh_spreads
from gpucf._search_branch import branch_node, pick_split
from gpucf._search_node import clip_node, key_beats_best, node_key, settled_label, start_node, survey_prices
from gpucf._search_polish import polish

INFEASIBLE, OPTIMAL, LIMIT, ASKED, TOO_DEEP = 0, 1, 2, 3, 4
GROWTH = 1.7
DIVE_FROM = 300  # nodes after which a row without an answer looks for any
FEW_VOTES_UNTIL = 20  # nodes: most rows need no more, and fewer voters make each of theirs quicker
GUESS = 0.5  # of the usual cost of earlier rows: the first budget


@inline
def _search_row(row, node_limit, learn, stop, rule, space, trees, prices, stack, scratch, rows):
    """Answer one row; see `Rows` for what is written.

    A run that ends in a question or in want of a deeper stack leaves no trace but that: the next one then takes the
    same way as if the answer had been known, so that a limited answer does not depend on the other rows of the table.
    """
    own = rows.own[row]
    price = scratch.price
    displacement = scratch.displacement
    fill_tables(prices, row, own, rows.values[row], space.kind, space.code_start, price, displacement)
    survey_prices(prices, own, space, scratch)
    best_cost = rows.cost[row]
    best_total = np.inf
    if best_cost < np.inf:
        best_total = 0.0
        for j in range(len(own)):
            scratch.best[j] = rows.codes[row, j]
            best_total += displacement[space.code_start[j] + scratch.best[j]]
    wanted = 1
    if rows.negate[row]:
        wanted = 2
    nodes = rows.nodes[row]
    bound = rows.bound[row]
    budget = bound
    if budget <= 0.0:
        budget = np.inf
        for j in range(len(own)):
            if scratch.cheapest[j] > 0.0:
                budget = min(budget, scratch.cheapest[j])
        # What rows before this one cost: most rows then need few passes, and passes decide nothing but the work.
        budget = max(budget, GUESS * scratch.usual[0])
    some_irregular = False
    for j in range(len(own)):
        some_irregular |= scratch.irregular[j]
    has_margin = len(trees.margin) > 0 and by_margin(rule)
    status = LIMIT
    dived = False
    while status == LIMIT:
        diving = not dived and nodes >= DIVE_FROM and best_cost == np.inf
        pass_budget = np.inf if diving else budget
        pass_end = min(node_limit, nodes + nodes // 4) if diving else node_limit
        start_node(prices.is_max, own, space, trees, stack, scratch)
        scratch.excluded[0] = np.inf
        d = 0
        while d >= 0:
            if nodes >= pass_end or stop[0] != 0:
                break
            nodes += 1
            cost = stack.cost[d]
            if cost > best_cost or cost == np.inf:
                d -= 1
                continue
            if cost > pass_budget:
                scratch.excluded[0] = min(scratch.excluded[0], cost)
                d -= 1
                continue
            if cost == best_cost:
                total = node_key(d, own, space, stack, scratch)
                if not key_beats_best(total, best_total, own, space, scratch):
                    d -= 1
                    continue
            limit = min(pass_budget, best_cost)
            # The nearer side of a split has the cost that its parent was clipped with: nothing more can go.
            if some_irregular or stack.clipped[d, 0] != cost or stack.clipped[d, 1] != limit:
                clip_node(d, limit, prices.is_max, own, space, trees, stack, scratch)
                stack.clipped[d, 0] = cost
                stack.clipped[d, 1] = limit
            outlook = np.int64(0)
            if has_margin:
                outlook, largest = margin_outlook(d, rows.label[row], trees, stack, scratch)
            if outlook == 0:
                largest = bound_node(d, trees, stack, scratch)
                outlook = outlook_of(
                    rule, rows.label[row], scratch.sum_low, scratch.sum_high, scratch.raw_low, scratch.raw_high
                )
            if outlook & wanted == 0:
                d -= 1
                continue
            s = -1
            if outlook & (3 - wanted) != 0:
                if rule.compound:
                    largest = weigh_spreads(rule, trees, scratch)
                if largest > 0.0:
                    few = nodes < FEW_VOTES_UNTIL
                    s = pick_split(d, few, limit, largest, own, space, trees, stack, scratch)
                else:
                    label = settled_label(rule, d, space, stack, scratch.sum_low, scratch.raw_low, rows.asked,
                                           rows.asked_label, scratch.codes)  # fmt: skip
                    if label == ASK:
                        for j in range(len(own)):
                            rows.question[row, j] = scratch.codes[j]
                        return ASKED
                    if (label == rows.label[row]) == rows.negate[row]:
                        d -= 1
                        continue
            if s < 0:
                total = node_key(d, own, space, stack, scratch)
                if cost < best_cost or key_beats_best(total, best_total, own, space, scratch):
                    best_cost = cost
                    best_total = total
                    for j in range(len(own)):
                        scratch.best[j] = scratch.codes[j]
                if diving:
                    break
                d -= 1
                continue
            if d + 2 > len(stack.cost) - 1:
                return TOO_DEEP
            branch_node(d, s, prices.is_max, own, space, trees, stack, scratch)
            d += 1
        if diving:
            dived = True
            if d >= 0:
                if best_cost < np.inf:
                    polish(rule, rows.label[row], rows.negate[row], own, space, trees, stack, scratch)
                    best_cost = 0.0
                    best_total = 0.0
                    for j in range(len(own)):
                        code = space.code_start[j] + scratch.best[j]
                        best_cost = max(best_cost, price[code]) if prices.is_max else best_cost + price[code]
                        best_total += displacement[code]
                if nodes >= node_limit or stop[0] != 0:
                    break
                continue
        elif d >= 0:
            break
        if best_cost < np.inf and best_cost <= budget:
            status = OPTIMAL
        elif scratch.excluded[0] == np.inf:
            status = OPTIMAL if best_cost < np.inf else INFEASIBLE
        else:
            # Everything left out costs at least `excluded`; an answer from elsewhere may be cheaper than that.
            bound = max(bound, min(scratch.excluded[0], best_cost))
            budget = min(max(budget * GROWTH, scratch.excluded[0] * (1.0 + 1e-9)), best_cost)
    if best_cost < np.inf:
        for j in range(len(own)):
            rows.codes[row, j] = scratch.best[j]
        rows.cost[row] = best_cost
        if status == OPTIMAL:
            bound = best_cost
            if learn:
                scratch.usual[0] += 0.2 * (best_cost - scratch.usual[0])
    elif status == INFEASIBLE:
        bound = np.inf
    rows.bound[row] = bound
    rows.nodes[row] = nodes
    return status


@njit
def search_rows(which, node_limit, learn, stop, rule, space, trees, prices, stack, scratch, rows):
    """Answer the rows `which` until they have taken `node_limit` nodes, earlier runs included.

    A non-zero ``stop[0]`` ends at once; rows then have the status LIMIT, as before, with what was found and proved.
    With `learn`, first budgets follow the costs of earlier rows, so that the nodes of a row depend on the order.
    """
    for row in which:
        if stop[0] != 0:
            return
        rows.status[row] = _search_row(row, node_limit, learn, stop, rule, space, trees, prices, stack, scratch, rows)
