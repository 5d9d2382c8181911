// Ensemble search: tables, work space, and a node as a box of codes (gpucf/_search_*.py).
//
// All lanes of a query take every branch together: what they branch on is read after a sync, or reduced over lanes.
#pragma once
#include "keys.cuh"
#include "prices.cuh"
#include "rules.cuh"

constexpr double EPS = 2.220446049250313e-16;
constexpr i32 VECTOR_LEAF = -1;

struct Space {
    i64 n_features;
    i64 n_codes;
    i64 n_sets;       // set words of all features
    i64 n_splits;
    i64 n_by_cut;
    i64 set_width;    // words of a row of set_words
    const i8 *kind;
    const i64 *code_start;
    const i64 *set_start;
    const i64 *by_cut;
    const i64 *cut_start;
    const i32 *split_feature;
    const i32 *split_cut;
    const i32 *split_set;
    const bool *split_missing_left;
    const u64 *set_words;
};

template <class Score>
struct Trees {
    i64 n_trees;
    i64 n_words;
    i64 n_leaf_outputs;
    i64 n_outputs;
    i64 sorted_leaves;
    double margin;    // by which sums in another order are surely off by less (design, rule 4)
    const i64 *tree_start;
    const i32 *left;
    const i32 *right;
    const i32 *node_split;
    const i64 *word_start;
    const u64 *at_least;
    const u64 *at_most;
    const u64 *full;
    const u64 *non_missing;
    const u64 *none_missing;
    const Score *value;
    const i32 *tree_output;
    const bool *rounds;
    const Score *base;
};

// Where each array of one query's work space lies, in bytes; stack arrays have one row for each depth.
struct Work {
    u8 *arena;
    i64 n_workers;
    i64 worker_bytes;
    i64 depth;
    i64 lo;
    i64 hi;
    i64 null;
    i64 sets;
    i64 mask;
    i64 node;
    i64 feature_price;
    i64 cost;
    i64 price;
    i64 displacement;
    i64 irregular;
    i64 dearest;
    i64 cheapest;
    i64 change;
    i64 codes;
    i64 best;
    i64 tree_low;
    i64 tree_high;
    i64 spread;
    i64 picked;
    i64 weight;
    i64 feature_weight;
    i64 sum_low;
    i64 sum_high;
    i64 relevance;
};

struct Rows {
    i64 n_rows;        // of `which`
    i64 node_limit;
    i64 n_asked;
    double first_budget;
    u64 *next;         // place in `which` of the next row that nobody has taken
    const i64 *which;
    const i32 *own;
    const double *values;
    const i64 *label;
    const bool *negate;
    i8 *status;
    i32 *codes;
    double *cost;
    double *bound;
    i64 *nodes;
    i32 *question;
    const i32 *asked;
    const i64 *asked_label;
};

// What happened to a feature of a node, so that its mask follows.
constexpr int LO_MOVED = 1, HI_MOVED = 2, SET = 4, NO_VALUE_LEFT = 8, NOT_MISSING = 16, VALUE_OR_MISSING = 32;

template <class Score, class Lanes> struct Query {
    const Prices &prices;
    const Rule &rule;
    const Space &space;
    const Trees<Score> &trees;
    const Work &work;
    u8 *base;
    const i32 *own;
    Lanes lanes;

    template <class T> GPUCF_FN T *at(i64 offset) const { return (T *)(base + offset); }
    GPUCF_FN int n() const { return (int)space.n_features; }
    GPUCF_FN i32 *lo(int d) const { return at<i32>(work.lo) + d * space.n_features; }
    GPUCF_FN i32 *hi(int d) const { return at<i32>(work.hi) + d * space.n_features; }
    GPUCF_FN u8 *null(int d) const { return at<u8>(work.null) + d * space.n_features; }
    GPUCF_FN u64 *sets(int d) const { return at<u64>(work.sets) + d * space.n_sets; }
    GPUCF_FN u64 *mask(int d) const { return at<u64>(work.mask) + d * trees.n_words; }
    GPUCF_FN i32 *node(int d) const { return at<i32>(work.node) + d * trees.n_trees; }
    GPUCF_FN double *feature_price(int d) const { return at<double>(work.feature_price) + d * space.n_features; }
    GPUCF_FN double &cost(int d) const { return at<double>(work.cost)[d]; }
    GPUCF_FN Table table() const { return Table{at<double>(work.price), at<double>(work.displacement), 1}; }
    GPUCF_FN double price(i64 code) const { return at<double>(work.price)[code]; }
    GPUCF_FN u8 *irregular() const { return at<u8>(work.irregular); }
    GPUCF_FN double *dearest() const { return at<double>(work.dearest); }
    GPUCF_FN double *cheapest() const { return at<double>(work.cheapest); }
    GPUCF_FN i32 *change() const { return at<i32>(work.change); }
    GPUCF_FN i32 *codes() const { return at<i32>(work.codes); }
    GPUCF_FN i32 *best() const { return at<i32>(work.best); }
    GPUCF_FN Score *tree_low() const { return at<Score>(work.tree_low); }
    GPUCF_FN Score *tree_high() const { return at<Score>(work.tree_high); }
    GPUCF_FN double *spread() const { return at<double>(work.spread); }
    GPUCF_FN i32 *picked() const { return at<i32>(work.picked); }
    GPUCF_FN u64 *weight() const { return at<u64>(work.weight); }
    GPUCF_FN u64 *feature_weight() const { return at<u64>(work.feature_weight); }
    GPUCF_FN Score *sum_low() const { return at<Score>(work.sum_low); }
    GPUCF_FN Score *sum_high() const { return at<Score>(work.sum_high); }
    GPUCF_FN double *relevance() const { return at<double>(work.relevance); }
    GPUCF_FN i64 first(int j) const { return space.code_start[j]; }
    GPUCF_FN i64 last(int j) const { return space.code_start[j + 1] - 1; }
};

// What a row's tables say of whole features; returns the least positive price.
template <class Q> GPUCF_FN double survey_prices(const Q &q) {
    double smallest = infinity();
    Table t = q.table();
    for (int j = 0; j < q.n(); ++j) {
        i64 first = q.first(j), last = q.last(j), mine = first + q.own[j];
        bool ordered = q.space.kind[j] == ORDERED, irregular = false;
        double dearest = 0.0, cheapest = infinity();
        for (i64 code = first + q.lanes.lane(); code <= last; code += q.lanes.count) {
            double p = t.price(code);
            if (p > 0.0) smallest = least(smallest, p);
            if (ordered) {
                if (mine == last)
                    irregular |= code < last && p < infinity();
                else if (code < mine)
                    irregular |= p < t.price(code + 1) || t.displacement(code) < t.displacement(code + 1);
                else if (code < last - 1)
                    irregular |= p > t.price(code + 1) || t.displacement(code) > t.displacement(code + 1);
            } else if (p < infinity()) {
                dearest = most(dearest, p);
                if (code != mine) cheapest = least(cheapest, p);
            }
        }
        if (ordered)
            irregular = q.lanes.any(irregular);
        else {
            dearest = q.lanes.largest(dearest);
            cheapest = q.lanes.smallest(cheapest);
        }
        if (q.lanes.lane() == 0) {
            q.irregular()[j] = irregular;
            q.dearest()[j] = dearest;
            q.cheapest()[j] = cheapest;
        }
    }
    q.lanes.sync();
    return q.lanes.smallest(smallest);
}

// Least price of the codes lo..hi (lo <= hi) of an ordered feature.
template <class Q> GPUCF_FN double range_price(const Q &q, int j, int lo, int hi) {
    i64 first = q.first(j);
    if (!q.irregular()[j]) return q.price(first + clamp(q.own[j], lo, hi));
    double p = infinity();
    for (int code = lo; code <= hi; ++code) p = least(p, q.price(first + code));
    return p;
}

template <class Q> GPUCF_FN double word_price(const Q &q, int j, i64 w, u64 members) {
    i64 base = q.first(j) + 64 * (w - q.space.set_start[j]);
    double p = infinity();
    for (; members != 0; members &= members - 1) p = least(p, q.price(base + lowest_bit(members)));
    return p;
}

// Leaves of mask word `i` that feature `j` of node `d` leaves reachable, as far as `change` says that this changed.
template <class Q> GPUCF_FN u64 reachable(const Q &q, int d, int j, int change, i64 i) {
    i64 words = q.trees.n_words, first = q.first(j), last = q.last(j);
    const u64 *at_least = q.trees.at_least + i;
    if (change & NO_VALUE_LEFT) return at_least[last * words];
    if (change & VALUE_OR_MISSING) return q.trees.non_missing[j * words + i] | at_least[last * words];
    if (change & NOT_MISSING) return q.trees.non_missing[j * words + i];
    if (change & SET) {
        u64 some = 0;
        for (i64 w = q.space.set_start[j]; w < q.space.set_start[j + 1]; ++w) {
            i64 base = first + 64 * (w - q.space.set_start[j]);
            for (u64 members = q.sets(d)[w]; members != 0; members &= members - 1)
                some |= at_least[(base + lowest_bit(members)) * words];
        }
        return some;
    }
    // Masks of ends and of "missing" may be joined one after another, since (A | M) & (B | M) = (A & B) | M.
    u64 range = ~0ULL;
    if (change & HI_MOVED) range &= q.trees.at_most[(first + q.hi(d)[j]) * words + i];
    if (change & LO_MOVED) range &= at_least[(first + q.lo(d)[j]) * words];
    return q.null(d)[j] ? range | at_least[last * words] : range;
}

// Let the mask of node `d` follow all changes of its features.
template <class Q> GPUCF_FN void follow_changes(const Q &q, int d) {
    q.lanes.sync();
    for (i64 i = q.lanes.lane(); i < q.trees.n_words; i += q.lanes.count) {
        u64 m = q.mask(d)[i];
        for (int j = 0; j < q.n(); ++j)
            if (q.change()[j]) m &= reachable(q, d, j, q.change()[j], i);
        q.mask(d)[i] = m;
    }
    q.lanes.sync();
}

// Cost of a node: least prices in feature order, one rounding after another.
template <class Q> GPUCF_FN double node_cost(const Q &q, int d) {
    double total = 0.0;
    for (int j = 0; j < q.n(); ++j) {
        double p = q.feature_price(d)[j];
        total = q.prices.is_max ? most(total, p) : total + p;
    }
    return total;
}

// Row 0 of the stack: every code that has a finite price, or that lies between such codes.
template <class Q> GPUCF_FN void start_node(const Q &q) {
    bool some_missing = false;
    q.lanes.sync();
    for (int j = q.lanes.lane(); j < q.n(); j += q.lanes.count) some_missing |= q.price(q.last(j)) < infinity();
    some_missing = q.lanes.any(some_missing);
    for (i64 w = q.lanes.lane(); w < q.trees.n_words; w += q.lanes.count)
        q.mask(0)[w] = some_missing ? q.trees.full[w] : q.trees.none_missing[w];
    for (i64 t = q.lanes.lane(); t < q.trees.n_trees; t += q.lanes.count) q.node(0)[t] = (i32)q.trees.tree_start[t];
    for (int j = q.lanes.lane(); j < q.n(); j += q.lanes.count) {
        i64 first = q.first(j), last = q.last(j);
        double p = q.price(first + q.own[j]);  // 0, or inf where the feature must change
        if (p > 0.0)
            for (i64 code = first; code <= last; ++code) p = least(p, q.price(code));
        q.feature_price(0)[j] = p;
        bool missing = q.price(last) < infinity();
        if (q.space.kind[j] == ORDERED) {
            bool some_value = first + q.own[j] != last || q.irregular()[j];
            q.null(0)[j] = missing;
            q.lo(0)[j] = some_value ? 0 : 1;
            q.hi(0)[j] = some_value ? (i32)(last - first - 1) : 0;
            // Leaves behind contradictory splits, which no code reaches, must not count as reachable.
            q.change()[j] = !some_value ? NO_VALUE_LEFT : missing ? VALUE_OR_MISSING : some_missing ? NOT_MISSING : 0;
            continue;
        }
        q.null(0)[j] = 0;
        bool forbidden = false;
        for (i64 w = q.space.set_start[j]; w < q.space.set_start[j + 1]; ++w) {
            i64 begin = first + 64 * (w - q.space.set_start[j]);
            u64 members = 0;
            for (i64 code = begin; code < least(begin + 64, last + 1); ++code) {
                if (q.price(code) < infinity())
                    members |= 1ULL << (code - begin);
                else
                    forbidden |= code != last;
            }
            q.sets(0)[w] = members;
        }
        q.change()[j] = forbidden || missing ? SET : some_missing ? NOT_MISSING : 0;
    }
    follow_changes(q, 0);
    double cost = node_cost(q, 0);
    if (q.lanes.lane() == 0) q.cost(0) = cost;
    q.lanes.sync();
}

GPUCF_FN bool payable(double p, double limit) { return p <= limit && p < infinity(); }

// The last payable code on the way from `near`, which can be paid, to `far`, which cannot; prices rise that way.
template <class Q> GPUCF_FN int last_payable(const Q &q, int near, int far, i64 first, double limit) {
    while (near - far > 1 || far - near > 1) {
        int middle = (near + far) >> 1;
        if (payable(q.price(first + middle), limit))
            near = middle;
        else
            far = middle;
    }
    return near;
}

// Clip an ordered feature; returns the least price of what was dropped.
template <class Q> GPUCF_FN double clip_ordered(const Q &q, int d, int j, double limit) {
    int lo = q.lo(d)[j], hi = q.hi(d)[j];
    bool null = q.null(d)[j] != 0;
    if (lo > hi || (lo == hi && !null)) return infinity();
    i64 first = q.first(j), last = q.last(j);
    double dropped = infinity();
    int new_lo = lo, new_hi = hi;
    if (q.irregular()[j]) {
        for (; new_hi >= lo && !payable(q.price(first + new_hi), limit); --new_hi)
            dropped = least(dropped, q.price(first + new_hi));
        for (; new_lo < new_hi && !payable(q.price(first + new_lo), limit); ++new_lo)
            dropped = least(dropped, q.price(first + new_lo));
    } else {
        int nearest = clamp(q.own[j], lo, hi);
        if (null && !payable(q.price(first + nearest), limit)) {
            dropped = q.price(first + nearest);
            new_hi = lo - 1;
        } else {
            if (!payable(q.price(first + hi), limit)) {
                new_hi = last_payable(q, nearest, hi, first, limit);
                dropped = q.price(first + new_hi + 1);
            }
            if (!payable(q.price(first + lo), limit)) {
                new_lo = last_payable(q, nearest, lo, first, limit);
                dropped = least(dropped, q.price(first + new_lo - 1));
            }
        }
    }
    if (new_hi < new_lo) {
        q.lo(d)[j] = 1;
        q.hi(d)[j] = 0;
        q.change()[j] = NO_VALUE_LEFT;
        return dropped;
    }
    q.lo(d)[j] = new_lo;
    q.hi(d)[j] = new_hi;
    if (null && !payable(q.price(last), limit)) {
        q.null(d)[j] = 0;
        q.change()[j] = LO_MOVED | HI_MOVED;
        return least(dropped, q.price(last));
    }
    q.change()[j] = (new_lo > lo ? LO_MOVED : 0) | (new_hi < hi ? HI_MOVED : 0);
    return dropped;
}

// Clip a categorical feature; returns at most the least price of what was dropped.
template <class Q> GPUCF_FN double clip_set(const Q &q, int d, int j, double limit) {
    i64 begin = q.space.set_start[j], end = q.space.set_start[j + 1];
    i64 own_word = begin + (q.own[j] >> 6);
    u64 own_bit = 1ULL << (q.own[j] & 63);
    double dropped = infinity();
    if (q.cheapest()[j] > limit && (q.sets(d)[own_word] & own_bit)) {
        for (i64 w = begin; w < end; ++w) {
            u64 kept = w == own_word ? own_bit : 0;
            if (q.sets(d)[w] != kept) q.change()[j] = SET;
            q.sets(d)[w] = kept;
        }
        return q.change()[j] ? q.cheapest()[j] : infinity();
    }
    for (i64 w = begin; w < end; ++w) {
        i64 base = q.first(j) + 64 * (w - begin);
        u64 kept = 0;
        for (u64 members = q.sets(d)[w]; members != 0; members &= members - 1) {
            double p = q.price(base + lowest_bit(members));
            if (payable(p, limit) || p <= q.feature_price(d)[j])
                kept |= members & (~members + 1);
            else {
                dropped = least(dropped, p);
                q.change()[j] = SET;
            }
        }
        q.sets(d)[w] = kept;
    }
    return dropped;
}

// Drop the codes that cost more than the budget from where the box stands; a filter that errs on keeping. Returns at
// most the cost of anything that was dropped.
template <class Q> GPUCF_FN double clip_node(const Q &q, int d, double budget) {
    double cost = q.cost(d), excluded = infinity();
    double slack = budget < infinity() ? 4.0 * q.n() * EPS * budget : 0.0;
    for (int j = q.lanes.lane(); j < q.n(); j += q.lanes.count) {
        double rest = q.prices.is_max ? 0.0 : cost - q.feature_price(d)[j];
        double limit = budget - rest + slack, dropped = infinity();
        q.change()[j] = 0;
        if (q.space.kind[j] == ORDERED)
            dropped = clip_ordered(q, d, j, limit);
        else if (q.dearest()[j] > limit)
            dropped = clip_set(q, d, j, limit);
        if (dropped < infinity()) {
            double total = q.prices.is_max ? most(cost, dropped) : rest + dropped;
            excluded = least(excluded, total * (1.0 - 4.0 * q.n() * EPS));
        }
    }
    excluded = q.lanes.smallest(excluded);
    follow_changes(q, d);
    return excluded;
}

// Codes of the nearest point of a node, written to `codes`; returns the sum of displacements.
template <class Q> GPUCF_FN double node_key(const Q &q, int d) {
    Table t = q.table();
    q.lanes.sync();  // the codes of the node before may still be read
    for (int j = q.lanes.lane(); j < q.n(); j += q.lanes.count) {
        i64 first = q.first(j);
        int missing = (int)(q.last(j) - first), code = -1;
        if (q.space.kind[j] == ORDERED) {
            if (q.lo(d)[j] <= q.hi(d)[j])
                code = best_in_range(q.lo(d)[j], q.hi(d)[j], q.own[j], q.irregular()[j], first, missing, t);
            if (q.null(d)[j] && (code < 0 || better_code(missing, code, q.own[j], missing, true, first, t)))
                code = missing;
        } else
            for (i64 w = q.space.set_start[j]; w < q.space.set_start[j + 1]; ++w)
                code = best_in_word(q.sets(d)[w], (int)(64 * (w - q.space.set_start[j])), code, q.own[j], missing,
                                    first, t);
        q.codes()[j] = code;
    }
    q.lanes.sync();
    double total = 0.0;
    for (int j = 0; j < q.n(); ++j) total += t.displacement(q.first(j) + q.codes()[j]);
    return total;
}

// Whether the key of `codes`, which `node_key` has written, stands before that of `best`.
template <class Q> GPUCF_FN bool key_beats_best(const Q &q, double total, double best_total) {
    if (total != best_total) return total < best_total;
    for (int j = 0; j < q.n(); ++j) {
        int a = q.codes()[j], b = q.best()[j];
        if (a != b)
            return comes_first(a, b, q.own[j], (int)(q.last(j) - q.first(j)), q.space.kind[j] == ORDERED, q.first(j),
                               q.table());
    }
    return false;
}

template <class Q> GPUCF_FN void take_best(const Q &q) {
    q.lanes.sync();
    for (int j = q.lanes.lane(); j < q.n(); j += q.lanes.count) q.best()[j] = q.codes()[j];
    q.lanes.sync();
}

// Label of a node whose sums are settled: exact, or known from an earlier question, or ASK; its first point, written to
// `codes`, stands for it in questions.
template <class Q> GPUCF_FN int settled_label(const Q &q, int d, const Rows &rows) {
    int label = label_of_sums(q.rule, q.sum_low());
    if (label != ASK) return label;
    q.lanes.sync();
    for (int j = q.lanes.lane(); j < q.n(); j += q.lanes.count) {
        if (q.space.kind[j] == ORDERED) {
            q.codes()[j] = q.lo(d)[j] <= q.hi(d)[j] ? q.lo(d)[j] : (i32)(q.last(j) - q.first(j));
            continue;
        }
        for (i64 w = q.space.set_start[j + 1] - 1; w >= q.space.set_start[j]; --w)
            if (q.sets(d)[w]) q.codes()[j] = (i32)(64 * (w - q.space.set_start[j])) + lowest_bit(q.sets(d)[w]);
    }
    q.lanes.sync();
    for (i64 i = 0; i < rows.n_asked; ++i) {
        bool differs = false;
        for (int j = q.lanes.lane(); j < q.n(); j += q.lanes.count)
            differs |= rows.asked[i * q.space.n_features + j] != q.codes()[j];
        if (!q.lanes.any(differs)) return (int)rows.asked_label[i];
    }
    return ASK;
}
