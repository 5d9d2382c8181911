// Ensemble search: bounds of a node's score, and which split it is branched on.
#pragma once
#include "search.cuh"

constexpr double SHARE_OF_LARGEST = 0.3;  // trees with at least this share of the largest leaf range vote
constexpr double FLOOR = 0.1;             // weight of a split whose sides cost the same
constexpr double VOTE_UNIT = 4294967296.0;  // votes are whole numbers, so that their sums do not depend on the order

struct Bounds {
    double largest;  // leaf range of a tree
    int outlook;     // see outlook_of
};

// First pass, one tree a lane: least and largest reachable leaf values, leaf ranges. The sums of `output` over all
// trees in the lanes' order come with it, as a filter.
template <class Score, class Q> GPUCF_FN double bound_trees(const Q &q, int d, int output, double &low, double &high) {
    const int width = (int)q.trees.n_leaf_outputs;
    double largest = 0.0;
    low = high = 0.0;
    for (i64 t = q.lanes.lane(); t < q.trees.n_trees; t += q.lanes.count) {
        const u64 *mask = q.mask(d);
        i64 begin = q.trees.word_start[t], end = q.trees.word_start[t + 1];
        i64 w = begin;
        while (mask[w] == 0) ++w;
        i64 first = 64 * w + lowest_bit(mask[w]);
        w = end - 1;
        while (mask[w] == 0) --w;
        i64 last = 64 * w + highest_bit(mask[w]);
        double spread = 0.0;
        for (int c = 0; c < width; ++c) {
            Score a = q.trees.value[first * width + c], b = q.trees.value[last * width + c];
            Score lower = least(a, b), upper = most(a, b);
            if (!q.trees.sorted_leaves)
                for (w = begin; w < end; ++w)
                    for (u64 members = mask[w]; members != 0; members &= members - 1) {
                        Score v = q.trees.value[(64 * w + lowest_bit(members)) * width + c];
                        lower = least(lower, v);
                        upper = most(upper, v);
                    }
            q.tree_low()[t * width + c] = lower;
            q.tree_high()[t * width + c] = upper;
            spread += (double)upper - (double)lower;
            int owner = q.trees.tree_output[t] == VECTOR_LEAF ? c : q.trees.tree_output[t];
            if (owner == output) {
                low += (double)lower;
                high += (double)upper;
            }
        }
        q.spread()[t] = spread;
        largest = most(largest, spread);
    }
    return q.lanes.largest(largest);
}

// Second pass: the library's own sums, in tree order; one lane for each output and side.
template <class Score, class Q> GPUCF_FN void ordered_sums(const Q &q) {
    const int width = (int)q.trees.n_leaf_outputs;
    q.lanes.sync();
    for (int i = q.lanes.lane(); i < 2 * (int)q.trees.n_outputs; i += q.lanes.count) {
        int c = i >> 1;
        const Score *values = i & 1 ? q.tree_high() : q.tree_low();
        Score sum = q.trees.base[c];
        for (i64 t = 0; t < q.trees.n_trees; ++t) {
            int owner = q.trees.tree_output[t];
            if (owner != VECTOR_LEAF && owner != c) continue;
            sum = sum + values[t * width + (owner == VECTOR_LEAF ? c : 0)];
            if (q.trees.rounds[t]) sum = (Score)(float)sum;
        }
        (i & 1 ? q.sum_high() : q.sum_low())[c] = sum;
    }
    q.lanes.sync();
}

template <class Score, class Q> GPUCF_FN Bounds bound_node(const Q &q, int d, int label) {
    double low, high;
    bool plain = !q.rule.compound && q.rule.mode[0] == THRESHOLD;
    int output = plain ? (int)q.rule.output[0] : -2;
    double largest = bound_trees<Score>(q, d, output, low, high);
    if (plain) {
        double base = (double)q.trees.base[output], bound = q.rule.bound[0], margin = q.trees.margin;
        low = base + q.lanes.sum(low);
        high = base + q.lanes.sum(high);
        bool may = high - margin >= bound, surely_not = high + margin < bound;
        bool may_not = low + margin < bound, sure = low - margin >= bound;
        if ((may || surely_not) && (may_not || sure)) {
            int yes = may * MAY + may_not * MAY_NOT;
            bool is_yes = q.rule.yes[1] == (label == 1);
            return Bounds{largest, is_yes ? yes : (yes >> 1) | ((yes & 1) << 1)};
        }
    }
    ordered_sums<Score>(q);
    return Bounds{largest, outlook_of(q.rule, label, Sums<Score>{q.sum_low(), q.sum_high()})};
}

// Leaf ranges as they matter to a compound rule; returns the largest.
template <class Score, class Q> GPUCF_FN double weigh_spreads(const Q &q) {
    const Rule &r = q.rule;
    Sums<Score> sums{q.sum_low(), q.sum_high()};
    if (q.lanes.lane() == 0) {
        for (int c = 0; c < (int)q.trees.n_outputs; ++c) q.relevance()[c] = 0.0;
        int begin = 0;
        for (int i = 0; i < (int)r.n_conditions; ++i) {
            if (i + 1 < (int)r.n_conditions && r.alternative[i + 1] == r.alternative[i]) continue;
            bool possible = true;
            for (int turn = 0; turn < 2; ++turn)
                for (int k = begin; k <= i; ++k) {
                    int outlook = simple_outlook(r, k, sums);
                    possible = possible && (outlook & MAY);
                    if (turn == 1 && possible && (outlook & MAY_NOT)) {
                        if (r.mode[k] == THRESHOLD)
                            q.relevance()[r.output[k]] = 1.0;
                        else
                            for (int c = (int)r.begin[k]; c < (int)r.end[k]; ++c) q.relevance()[c] = 1.0;
                    }
                }
            begin = i + 1;
        }
    }
    q.lanes.sync();
    double largest = 0.0;
    for (i64 t = q.lanes.lane(); t < q.trees.n_trees; t += q.lanes.count) {
        int c = q.trees.tree_output[t];
        if (c != VECTOR_LEAF) {
            double open = (double)sums.high[c] - (double)sums.low[c];
            q.spread()[t] *= open > 0.0 ? q.relevance()[c] / open : q.relevance()[c];
        }
        largest = most(largest, q.spread()[t]);
    }
    return q.lanes.largest(largest);
}

// Least price of the split's feature on one side of the split; inf where the side is empty.
template <class Q> GPUCF_FN double side_price(const Q &q, int d, int s, bool is_left) {
    int j = q.space.split_feature[s];
    double p = infinity();
    if (q.space.kind[j] == ORDERED) {
        int cut = q.space.split_cut[s], lo = q.lo(d)[j], hi = q.hi(d)[j];
        if (is_left)
            hi = least(hi, cut);
        else
            lo = most(lo, cut + 1);
        if (lo <= hi) p = range_price(q, j, lo, hi);
        if (q.null(d)[j] && q.space.split_missing_left[s] == is_left) p = least(p, q.price(q.last(j)));
        return p;
    }
    for (i64 w = q.space.set_start[j]; w < q.space.set_start[j + 1]; ++w) {
        u64 left = q.space.set_words[q.space.split_set[s] * q.space.set_width + w - q.space.set_start[j]];
        p = least(p, word_price(q, j, w, q.sets(d)[w] & (is_left ? left : ~left)));
    }
    return p;
}

// Which sides of a split the box reaches: bit 0 left, bit 1 right.
template <class Q> GPUCF_FN int sides_of(const Q &q, int d, int s) {
    int j = q.space.split_feature[s];
    bool left = false, right = false;
    if (q.space.kind[j] == ORDERED) {
        int lo = q.lo(d)[j], hi = q.hi(d)[j], cut = q.space.split_cut[s];
        if (lo <= hi) {
            left = lo <= cut;
            right = hi > cut;
        }
        if (q.null(d)[j]) {
            if (q.space.split_missing_left[s])
                left = true;
            else
                right = true;
        }
    } else
        for (i64 w = q.space.set_start[j]; w < q.space.set_start[j + 1]; ++w) {
            u64 goes_left = q.space.set_words[q.space.split_set[s] * q.space.set_width + w - q.space.set_start[j]];
            left |= (q.sets(d)[w] & goes_left) != 0;
            right |= (q.sets(d)[w] & ~goes_left) != 0;
        }
    return left + 2 * right;
}

// The undecided split to branch on: trees with a large leaf range vote for the first split on their way down that the
// box reaches both sides of; the feature with the most votes is cut at their weighted median, a set at its heaviest.
template <class Q> GPUCF_FN int pick_split(const Q &q, int d, double budget, double largest) {
    double left_over = budget - q.cost(d);
    for (int j = q.lanes.lane(); j < q.n(); j += q.lanes.count) q.feature_weight()[j] = 0;
    q.lanes.sync();
    for (i64 t = q.lanes.lane(); t < q.trees.n_trees; t += q.lanes.count) {
        double spread = q.spread()[t];
        q.picked()[t] = -1;
        if (spread <= 0.0 || spread < SHARE_OF_LARGEST * largest) continue;
        i32 node = q.node(d)[t];
        int s = q.trees.node_split[node], sides = sides_of(q, d, s);
        while (sides != 3) {
            node = sides == 1 ? q.trees.left[node] : q.trees.right[node];
            s = q.trees.node_split[node];
            sides = sides_of(q, d, s);
        }
        q.node(d)[t] = node;
        int j = q.space.split_feature[s];
        double extra = most(side_price(q, d, s, true), side_price(q, d, s, false)) - q.feature_price(d)[j];
        double factor = FLOOR;
        if (0.0 < left_over && left_over < infinity()) factor += least(extra / left_over, 1.0);
        double share = spread / largest;
        u64 vote = 1 + (u64)(VOTE_UNIT * factor * (share <= 1.0 ? share : 1.0));
        q.picked()[t] = s;
        q.lanes.add(&q.weight()[s], vote);
        q.lanes.add(&q.feature_weight()[j], vote);
    }
    q.lanes.sync();
    u64 heaviest = 0;
    for (int j = q.lanes.lane(); j < q.n(); j += q.lanes.count) heaviest = most(heaviest, q.feature_weight()[j]);
    heaviest = q.lanes.largest(heaviest);
    i32 feature = q.n();
    for (int j = q.lanes.lane(); j < q.n(); j += q.lanes.count)
        if (q.feature_weight()[j] == heaviest) feature = least(feature, j);
    feature = q.lanes.smallest(feature);
    i32 best = (i32)q.space.n_splits;
    if (q.space.kind[feature] == ORDERED && !q.null(d)[feature]) {
        u64 half = (heaviest + 1) / 2, before = 0;
        for (i64 i = q.space.cut_start[q.first(feature) + q.lo(d)[feature]]; before < half; i += q.lanes.count) {
            i64 mine = i + q.lanes.lane();
            i32 s = mine < q.space.n_by_cut ? (i32)q.space.by_cut[mine] : -1;
            u64 vote = s >= 0 && q.space.split_feature[s] == feature ? q.weight()[s] : 0;
            u64 upto = before + q.lanes.prefix(vote);
            best = q.lanes.smallest(vote > 0 && upto >= half ? (i32)mine : 0x7fffffff);
            before = q.lanes.last(upto);
        }
        best = (i32)q.space.by_cut[best];
    } else {
        u64 most_votes = 0;
        for (i64 t = q.lanes.lane(); t < q.trees.n_trees; t += q.lanes.count) {
            i32 s = q.picked()[t];
            if (s >= 0 && q.space.split_feature[s] == feature) most_votes = most(most_votes, q.weight()[s]);
        }
        most_votes = q.lanes.largest(most_votes);
        for (i64 t = q.lanes.lane(); t < q.trees.n_trees; t += q.lanes.count) {
            i32 s = q.picked()[t];
            if (s >= 0 && q.space.split_feature[s] == feature && q.weight()[s] == most_votes) best = least(best, s);
        }
        best = q.lanes.smallest(best);
    }
    q.lanes.sync();
    for (i64 t = q.lanes.lane(); t < q.trees.n_trees; t += q.lanes.count)
        if (q.picked()[t] >= 0) q.weight()[q.picked()[t]] = 0;
    q.lanes.sync();
    return best;
}

// Keep of node `d` what goes to one side of split `s`.
template <class Q> GPUCF_FN void cut_node(const Q &q, int d, int s, bool is_left, double price) {
    int j = q.space.split_feature[s];
    for (int f = q.lanes.lane(); f < q.n(); f += q.lanes.count) q.change()[f] = 0;
    q.lanes.sync();
    if (q.lanes.lane() == 0) {
        q.feature_price(d)[j] = price;
        if (q.space.kind[j] != ORDERED) {
            for (i64 w = q.space.set_start[j]; w < q.space.set_start[j + 1]; ++w) {
                u64 left = q.space.set_words[q.space.split_set[s] * q.space.set_width + w - q.space.set_start[j]];
                q.sets(d)[w] &= is_left ? left : ~left;
            }
            q.change()[j] = SET;
        } else {
            int cut = q.space.split_cut[s], lo = q.lo(d)[j], hi = q.hi(d)[j];
            int new_lo = is_left ? lo : most(lo, cut + 1), new_hi = is_left ? least(hi, cut) : hi;
            bool null_goes = q.null(d)[j] && q.space.split_missing_left[s] != is_left;
            if (null_goes) q.null(d)[j] = 0;
            bool empty = new_lo > new_hi;
            q.lo(d)[j] = empty ? 1 : new_lo;
            q.hi(d)[j] = empty ? 0 : new_hi;
            q.change()[j] = empty ? NO_VALUE_LEFT
                                  : (null_goes || new_lo > lo ? LO_MOVED : 0) | (null_goes || new_hi < hi ? HI_MOVED : 0);
        }
    }
    q.lanes.sync();
    int change = q.change()[j];
    if (change)
        for (i64 i = q.lanes.lane(); i < q.trees.n_words; i += q.lanes.count)
            q.mask(d)[i] &= reachable(q, d, j, change, i);
    double cost = node_cost(q, d);
    q.lanes.sync();
    if (q.lanes.lane() == 0) q.cost(d) = cost;
    q.lanes.sync();
}

// Replace node `d` by its two sides: the dearer one in its place, the nearer one on top.
template <class Q> GPUCF_FN void branch_node(const Q &q, int d, int s) {
    double left = side_price(q, d, s, true), right = side_price(q, d, s, false);
    bool left_is_near = left <= right;
    for (int f = q.lanes.lane(); f < q.n(); f += q.lanes.count) {
        q.lo(d + 1)[f] = q.lo(d)[f];
        q.hi(d + 1)[f] = q.hi(d)[f];
        q.null(d + 1)[f] = q.null(d)[f];
        q.feature_price(d + 1)[f] = q.feature_price(d)[f];
    }
    for (i64 w = q.lanes.lane(); w < q.space.n_sets; w += q.lanes.count) q.sets(d + 1)[w] = q.sets(d)[w];
    for (i64 w = q.lanes.lane(); w < q.trees.n_words; w += q.lanes.count) q.mask(d + 1)[w] = q.mask(d)[w];
    for (i64 t = q.lanes.lane(); t < q.trees.n_trees; t += q.lanes.count) q.node(d + 1)[t] = q.node(d)[t];
    q.lanes.sync();
    cut_node(q, d, s, !left_is_near, left_is_near ? right : left);
    cut_node(q, d + 1, s, left_is_near, left_is_near ? left : right);
}
