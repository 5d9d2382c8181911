// Ensemble search: one row, from its price tables to its answer (gpucf/_search_kernel.py).
#pragma once
#include "search_bound.cuh"

constexpr int INFEASIBLE = 0, OPTIMAL = 1, LIMIT = 2, ASKED = 3, TOO_DEEP = 4;
constexpr double GROWTH = 1.7;
constexpr int DIVE_FROM = 300;  // nodes after which a row without an answer looks for any

// Whether the point `best` surely has the wanted label; row 0 of the stack is work space.
template <class Score, class Q> GPUCF_FN bool point_holds(const Q &q, int label, bool negate) {
    i64 words = q.trees.n_words;
    for (i64 w = q.lanes.lane(); w < words; w += q.lanes.count) {
        u64 m = q.trees.full[w];
        for (int j = 0; j < q.n(); ++j) {
            i64 row = (q.first(j) + q.best()[j]) * words + w;
            m &= q.trees.at_least[row];
            if (q.space.kind[j] == ORDERED) m &= q.trees.at_most[row];
        }
        q.mask(0)[w] = m;
    }
    q.lanes.sync();
    double low, high;
    bound_trees<Score>(q, 0, -2, low, high);
    ordered_sums<Score>(q);
    int found = label_of_sums(q.rule, q.sum_low());
    q.lanes.sync();
    return found >= 0 && (found == label) != negate;
}

template <class Q> GPUCF_FN void set_best(const Q &q, int j, int code) {
    q.lanes.sync();
    if (q.lanes.lane() == 0) q.best()[j] = code;
    q.lanes.sync();
}

// Move every feature of the answer `best` back towards the row where the answer still holds; it only saves work.
template <class Score, class Q> GPUCF_FN void polish(const Q &q, int label, bool negate) {
    for (int j = 0; j < q.n(); ++j) {
        int mine = q.own[j], far = q.best()[j];
        if (far == mine || q.price(q.first(j) + mine) > 0.0) continue;  // the feature must change
        set_best(q, j, mine);
        if (point_holds<Score>(q, label, negate)) continue;
        int missing = (int)(q.last(j) - q.first(j));
        if (q.space.kind[j] == ORDERED && far != missing && mine != missing && !q.irregular()[j]) {
            int near = mine;  // does not hold; `far` does
            while (far - near > 1 || near - far > 1) {
                int middle = (near + far) >> 1;
                set_best(q, j, middle);
                if (point_holds<Score>(q, label, negate))
                    far = middle;
                else
                    near = middle;
            }
        }
        set_best(q, j, far);
    }
}

// Cost and displacements of the point `best`.
template <class Q> GPUCF_FN double point_cost(const Q &q, double &total) {
    double cost = 0.0;
    total = 0.0;
    for (int j = 0; j < q.n(); ++j) {
        i64 code = q.first(j) + q.best()[j];
        cost = q.prices.is_max ? most(cost, q.price(code)) : cost + q.price(code);
        total += q.table().displacement(code);
    }
    return cost;
}

// Answer one row; a run that ends in a question or in want of a deeper stack leaves no trace but that.
template <class Score, class Lanes>
GPUCF_FN int search_row(const Query<Score, Lanes> &q, const Rows &rows, i64 row) {
    fill_tables(q.prices, row, q.own, rows.values + row * q.space.n_features, q.space.kind, q.space.code_start, q.n(),
                q.table(), q.lanes);
    double smallest = survey_prices(q);
    for (i64 s = q.lanes.lane(); s < q.space.n_splits; s += q.lanes.count) q.weight()[s] = 0;
    i32 *codes = rows.codes + row * q.space.n_features;
    double best_cost = rows.cost[row], best_total = infinity(), bound = rows.bound[row], budget = bound;
    if (best_cost < infinity()) {
        for (int j = q.lanes.lane(); j < q.n(); j += q.lanes.count) q.best()[j] = codes[j];
        q.lanes.sync();
        point_cost(q, best_total);
    }
    int label = (int)rows.label[row];
    bool negate = rows.negate[row];
    int wanted = negate ? MAY_NOT : MAY;
    i64 nodes = rows.nodes[row];
    if (budget <= 0.0) budget = most(smallest, rows.first_budget);
    int status = LIMIT;
    bool dived = false;
    while (status == LIMIT) {
        bool diving = !dived && nodes >= DIVE_FROM && best_cost == infinity();
        double pass_budget = diving ? infinity() : budget, excluded = infinity();
        i64 pass_end = diving ? least(rows.node_limit, nodes + nodes / 4) : rows.node_limit;
        start_node(q);
        int d = 0;
        while (d >= 0) {
            if (nodes >= pass_end) break;
            ++nodes;
            double cost = q.cost(d);
            if (cost > best_cost || cost == infinity()) {
                --d;
                continue;
            }
            if (cost > pass_budget) {
                excluded = least(excluded, cost);
                --d;
                continue;
            }
            if (cost == best_cost) {
                double total = node_key(q, d);
                if (!key_beats_best(q, total, best_total)) {
                    --d;
                    continue;
                }
            }
            double limit = least(pass_budget, best_cost);
            excluded = least(excluded, clip_node(q, d, limit));
            Bounds bounds = bound_node<Score>(q, d, label);
            if (!(bounds.outlook & wanted)) {
                --d;
                continue;
            }
            int s = -1;
            if (bounds.outlook & (3 - wanted)) {
                if (q.rule.compound) bounds.largest = weigh_spreads<Score>(q);
                if (bounds.largest > 0.0) {
                    s = pick_split(q, d, limit, bounds.largest);
                } else {
                    int found = settled_label(q, d, rows);
                    if (found == ASK) {
                        for (int j = q.lanes.lane(); j < q.n(); j += q.lanes.count)
                            rows.question[row * q.space.n_features + j] = q.codes()[j];
                        q.lanes.sync();
                        return ASKED;
                    }
                    if ((found == label) == negate) {
                        --d;
                        continue;
                    }
                }
            }
            if (s < 0) {
                double total = node_key(q, d);
                if (cost < best_cost || key_beats_best(q, total, best_total)) {
                    best_cost = cost;
                    best_total = total;
                    take_best(q);
                }
                if (diving) break;
                --d;
                continue;
            }
            if (d + 2 > (int)q.work.depth - 1) return TOO_DEEP;
            branch_node(q, d, s);
            ++d;
        }
        if (diving) {
            dived = true;
            if (d >= 0) {
                if (best_cost < infinity()) {
                    polish<Score>(q, label, negate);
                    best_cost = point_cost(q, best_total);
                }
                if (nodes >= rows.node_limit) break;
                continue;
            }
        } else if (d >= 0)
            break;
        if (best_cost < infinity() && best_cost <= budget)
            status = OPTIMAL;
        else if (excluded == infinity())
            status = best_cost < infinity() ? OPTIMAL : INFEASIBLE;
        else {
            // Everything left out costs at least `excluded`; an answer from elsewhere may be cheaper than that.
            bound = most(bound, least(excluded, best_cost));
            budget = least(most(budget * GROWTH, excluded * (1.0 + 1e-9)), best_cost);
        }
    }
    if (best_cost < infinity()) {
        for (int j = q.lanes.lane(); j < q.n(); j += q.lanes.count) codes[j] = q.best()[j];
        if (status == OPTIMAL) bound = best_cost;
    } else if (status == INFEASIBLE)
        bound = infinity();
    if (q.lanes.lane() == 0) {
        rows.cost[row] = best_cost;
        rows.bound[row] = bound;
        rows.nodes[row] = nodes;
    }
    return status;
}
