// The map query: branch and bound over the KD-tree of one label, one row (gpucf/_query.py).
#pragma once
#include "keys.cuh"
#include "prices.cuh"

constexpr int SLOTS = 8;
// The builder lets no tree be deeper than 16 levels, and a level leaves at most 7 blocks waiting (gpucf/_kdtree.py):
// an overflow is impossible.
constexpr int MAX_STACK = 7 * 16 + 8;

struct Map {
    i64 n_rows;        // of `rows`
    i64 n_features;
    i64 n_set_words;
    i64 n_blocks;
    i64 n_threads;     // what the work space is for
    const i64 *rows;   // rows of the table to answer
    const i32 *own;
    const double *values;
    const i8 *kind;
    const i64 *code_start;
    const i64 *set_start;
    const bool *has_gaps;
    const u16 *lo;     // [block][feature][slot]
    const u16 *hi;
    const u64 *sets;   // [block][word][slot]
    const i32 *size;
    const i32 *child;
    double *price;         // work space, [code][thread]
    double *displacement;
    i32 *out_codes;        // an answer that is already there (cost finite) is the one to beat
    double *out_cost;
    i64 *out_visits;
};

struct MapSlot {
    const Map &m;
    Table t;
    const i32 *own;
    i64 block;
    int slot;

    GPUCF_FN int lo(int j) const { return m.lo[(block * m.n_features + j) * SLOTS + slot]; }
    GPUCF_FN int hi(int j) const { return m.hi[(block * m.n_features + j) * SLOTS + slot]; }
    GPUCF_FN u64 word(i64 w) const { return m.sets[(block * m.n_set_words + w) * SLOTS + slot]; }

    // Least price of what the slot allows in feature `j`.
    GPUCF_FN double price(int j) const {
        i64 first = m.code_start[j], begin = m.set_start[j], end = m.set_start[j + 1];
        if (m.kind[j] == ORDERED && begin == end && !m.has_gaps[j])
            return t.price(first + clamp(own[j], lo(j), hi(j)));
        double p = infinity();
        if (m.kind[j] == ORDERED) {
            if (end > begin && (word(begin) & 1)) p = t.price(m.code_start[j + 1] - 1);
            for (int code = lo(j); code <= hi(j); ++code) p = least(p, t.price(first + code));
            return p;
        }
        for (i64 w = begin; w < end; ++w)
            for (u64 members = word(w); members != 0; members &= members - 1)
                p = least(p, t.price(first + 64 * (w - begin) + lowest_bit(members)));
        return p;
    }

    // The code of the slot's nearest point in feature `j`.
    GPUCF_FN int code(int j) const {
        i64 first = m.code_start[j], begin = m.set_start[j], end = m.set_start[j + 1];
        int missing = (int)(m.code_start[j + 1] - first - 1), mine = own[j], best = -1;
        if (m.kind[j] == ORDERED) {
            if (lo(j) <= hi(j)) best = best_in_range(lo(j), hi(j), mine, m.has_gaps[j], first, missing, t);
            if (end > begin && (word(begin) & 1) &&
                (best < 0 || better_code(missing, best, mine, missing, true, first, t)))
                best = missing;
            return best;
        }
        for (i64 w = begin; w < end; ++w)
            best = best_in_word(word(w), (int)(64 * (w - begin)), best, mine, missing, first, t);
        return best;
    }

    GPUCF_FN double total() const {
        double sum = 0.0;
        for (int j = 0; j < m.n_features; ++j) sum += t.displacement(m.code_start[j] + code(j));
        return sum;
    }

    // Whether a key of the same cost stands before the best key.
    GPUCF_FN bool precedes(double own_total, const i32 *best, double best_total) const {
        if (own_total != best_total) return own_total < best_total;
        for (int j = 0; j < m.n_features; ++j) {
            int a = code(j), b = best[j];
            if (a != b) {
                int missing = (int)(m.code_start[j + 1] - m.code_start[j] - 1);
                return comes_first(a, b, own[j], missing, m.kind[j] == ORDERED, m.code_start[j], t);
            }
        }
        return false;
    }
};

// Cost of the nearest point of each slot: prices in feature order, one rounding after another.
GPUCF_FN void price_block(const Map &m, bool is_max, double best_cost, const i32 *own, i64 block, Table t,
                          double cost[SLOTS]) {
    for (int s = 0; s < SLOTS; ++s) cost[s] = 0.0;
    for (int j = 0; j < m.n_features; ++j) {
        double nearest = infinity();
#pragma unroll
        for (int s = 0; s < SLOTS; ++s) {
            double p = MapSlot{m, t, own, block, s}.price(j);
            cost[s] = is_max ? most(cost[s], p) : cost[s] + p;
            nearest = least(nearest, cost[s]);
        }
        if (nearest > best_cost) break;  // sums are then too low, but above the best cost
    }
}

GPUCF_FN void map_row(const Prices &p, const Map &m, i64 row, Table t) {
    const i32 *own = m.own + row * m.n_features;
    i32 *best = m.out_codes + row * m.n_features;
    fill_tables(p, row, own, m.values + row * m.n_features, m.kind, m.code_start, (int)m.n_features, t, OneLane());
    double best_cost = m.out_cost[row], best_total = infinity();
    if (best_cost < infinity()) {
        best_total = 0.0;
        for (int j = 0; j < m.n_features; ++j) best_total += t.displacement(m.code_start[j] + best[j]);
    }
    i32 stack[MAX_STACK];
    double stack_cost[MAX_STACK];
    int top = 0;
    stack[0] = 0;
    stack_cost[0] = 0.0;
    i64 visits = 0;
    while (top >= 0) {
        i64 block = stack[top];
        double bound = stack_cost[top--];
        if (bound > best_cost) continue;
        int size = m.size[block], base = top;
        visits += size;
        double cost[SLOTS];
        price_block(m, p.is_max != 0, best_cost, own, block, t, cost);
        bool is_last = m.child[block * SLOTS] < 0;
#pragma unroll
        for (int s = 0; s < SLOTS; ++s) {
            double c = cost[s];
            if (s >= size || c > best_cost || c == infinity()) continue;
            if (is_last || c == best_cost) {
                MapSlot slot{m, t, own, block, s};
                double total = slot.total();
                if (c == best_cost && !slot.precedes(total, best, best_total)) continue;
                if (is_last) {
                    best_cost = c;
                    best_total = total;
                    for (int j = 0; j < m.n_features; ++j) best[j] = slot.code(j);
                    continue;
                }
            }
            // Children in order of falling cost, so that the nearest is on top of the stack.
            int at = top++;
            while (at > base && stack_cost[at] < c) {
                stack[at + 1] = stack[at];
                stack_cost[at + 1] = stack_cost[at];
                --at;
            }
            stack[at + 1] = m.child[block * SLOTS + s];
            stack_cost[at + 1] = c;
        }
    }
    m.out_cost[row] = best_cost;
    m.out_visits[row] += visits;
}

// The device's own oracle: every box is priced, none is skipped.
GPUCF_FN void map_row_naive(const Prices &p, const Map &m, i64 row, Table t) {
    const i32 *own = m.own + row * m.n_features;
    i32 *best = m.out_codes + row * m.n_features;
    fill_tables(p, row, own, m.values + row * m.n_features, m.kind, m.code_start, (int)m.n_features, t, OneLane());
    double best_cost = m.out_cost[row], best_total = infinity();
    if (best_cost < infinity()) {
        best_total = 0.0;
        for (int j = 0; j < m.n_features; ++j) best_total += t.displacement(m.code_start[j] + best[j]);
    }
    for (i64 block = 0; block < m.n_blocks; ++block) {
        if (m.child[block * SLOTS] >= 0) continue;
        for (int s = 0; s < m.size[block]; ++s) {
            MapSlot slot{m, t, own, block, s};
            double cost = 0.0;
            for (int j = 0; j < m.n_features; ++j)
                cost = p.is_max ? most(cost, slot.price(j)) : cost + slot.price(j);
            if (cost > best_cost || cost == infinity()) continue;
            double total = slot.total();
            if (cost == best_cost && !slot.precedes(total, best, best_total)) continue;
            best_cost = cost;
            best_total = total;
            for (int j = 0; j < m.n_features; ++j) best[j] = slot.code(j);
        }
    }
    m.out_cost[row] = best_cost;
}
