// Price tables: what moving to each code costs one row (gpucf/_prices.py, whose operations and order these are).
#pragma once
#include "common.cuh"

// Arguments of kernels are structs of 8-byte words. gpucf/_cuda_args.py reads names and types from these definitions,
// so that the host cannot disagree with them.
struct Prices {
    i64 is_max;
    i64 n_limits;   // rows of low, high, at_low, at_high: 1 where all rows are alike
    i64 n_at;       // rows of at
    i64 n_barred;   // rows of barred: none, or all
    const double *cell_lo;
    const double *cell_hi;
    const double *flat;
    const double *linear;
    const double *square;
    const double *far;
    const double *scale;
    const bool *may_rise;
    const bool *may_fall;
    const bool *special;
    const double *at;
    const double *at_lo;
    const double *at_hi;
    const double *unit;
    const double *low;
    const double *high;
    const double *at_low;
    const double *at_high;
    const i64 *matrix_start;
    const double *matrix_price;
    const double *enter_price;
    const double *leave_price;
    const double *leave_value;
    const bool *by_price;
    const bool *barred;
};

// A factor of 0 takes no part, since `d` may have overflowed: 0 * inf is NaN.
GPUCF_FN double price_of(double d, double flat, double linear, double square) {
    double p = flat;
    if (linear > 0.0) p += linear * d;
    if (square > 0.0) p += square * (d * d);
    return least(p, LARGEST_PRICE);
}

GPUCF_FN void price_plain(const Prices &p, int n, int j, double x, bool ordered, i64 last, i64 mine, i64 code,
                          double &price, double &displacement) {
    bool rises = code > mine || !ordered;
    bool allowed = (rises ? p.may_rise[j] : p.may_fall[j]) && mine != last && code != last;
    if (!allowed) return;
    int side = rises ? n + j : j;
    if (!ordered) {
        price = p.flat[side] + p.linear[side] + p.square[side];
        displacement = p.far[j];
        return;
    }
    double d = ((rises ? p.cell_lo[code] : p.cell_hi[code]) - x) * (rises ? 1.0 : -1.0) / p.scale[j];
    if (d != d) return;  // a cell without an attainable value has NaN ends
    displacement = least(p.far[j] * d, LARGEST_PRICE);
    price = price_of(d, p.flat[side], p.linear[side], p.square[side]);
}

GPUCF_FN void price_limited(const Prices &p, int n, i64 row, int j, double x, double low, double high, i64 mine,
                            i64 code, double &price, double &displacement) {
    i64 limits = least(row, p.n_limits - 1) * n + j;
    double at = p.at[least(row, p.n_at - 1) * n + j];
    bool rises = code > mine;
    if (!(rises ? p.may_rise[j] : p.may_fall[j])) return;
    double v = rises ? p.cell_lo[code] : p.cell_hi[code];
    double to = rises ? p.at_lo[code] : p.at_hi[code];
    if (rises && low > v) {
        v = low;
        to = p.at_low[limits];
    }
    if (!rises && high < v) {
        v = high;
        to = p.at_high[limits];
    }
    if (!(p.cell_lo[code] <= v && v <= p.cell_hi[code] && low <= v && v <= high)) return;
    int side = rises ? n + j : j;
    double d = (rises ? to - at : at - to) / p.unit[j];
    price = price_of(d, p.flat[side], p.linear[side], p.square[side]);
    double moved = (rises ? v - x : x - v) / p.scale[j];
    displacement = p.by_price[j] ? price : least(p.far[j] * moved, LARGEST_PRICE);
}

GPUCF_FN void price_special(const Prices &p, int n, i64 row, int j, double x, bool ordered, i64 first, i64 last,
                            i64 mine, i64 code, double &price, double &displacement) {
    i64 limits = least(row, p.n_limits - 1) * n + j;
    double low = p.low[limits], high = p.high[limits];
    bool still = low == infinity() && high == -infinity();
    if (still || !(p.may_rise[j] || p.may_fall[j])) return;
    if (mine == last) {
        if (code != last && (!ordered || (low <= p.leave_value[code] && p.leave_value[code] <= high)))
            price = displacement = p.leave_price[code];
    } else if (code == last) {
        price = displacement = p.enter_price[j];
    } else if (ordered) {
        price_limited(p, n, row, j, x, low, high, mine, code, price, displacement);
    } else {
        i64 begin = p.matrix_start[j] + (mine - first) * (last - first) - first;
        price = p.matrix_start[j] < 0 ? p.flat[n + j] + p.linear[n + j] + p.square[n + j] : p.matrix_price[begin + code];
        displacement = p.by_price[j] ? price : p.far[j];
    }
}

// Prices and displacements of every code for one row; `own` and `x` are its codes and values by feature.
template <class Lanes>
GPUCF_FN void fill_tables(const Prices &p, i64 row, const i32 *own, const double *x, const i8 *kind,
                          const i64 *code_start, int n_features, Table table, Lanes lanes) {
    for (int j = 0; j < n_features; ++j) {
        i64 first = code_start[j], last = code_start[j + 1] - 1, mine = first + own[j];
        for (i64 code = first + lanes.lane(); code <= last; code += Lanes::count) {
            double price = infinity(), displacement = infinity();
            if (code == mine)
                price = displacement = 0.0;
            else if (p.special[j])
                price_special(p, n_features, row, j, x[j], kind[j] == ORDERED, first, last, mine, code, price,
                              displacement);
            else
                price_plain(p, n_features, j, x[j], kind[j] == ORDERED, last, mine, code, price, displacement);
            if (p.n_barred > 0 && p.barred[row * code_start[n_features] + code])
                price = displacement = infinity();
            table.price(code) = price;
            table.displacement(code) = displacement;
        }
    }
    lanes.sync();
}
