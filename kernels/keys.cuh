// Keys: the total order that makes the answer one point (design, rule 5; gpucf/_keys.py).
#pragma once
#include "common.cuh"

// Whether code `a` stands before code `b` (a != b) in the order of one feature.
GPUCF_FN bool comes_first(int a, int b, int own, int missing, bool ordered, i64 first, Table t) {
    if (a == own || b == own) return a == own;
    if (a == missing || b == missing) {
        if (t.price(first + a) != t.price(first + b)) return t.price(first + a) < t.price(first + b);
        return b == missing;
    }
    if (ordered) {
        if ((a < own) == (b < own)) return (a < own) ? a > b : a < b;
        if (t.displacement(first + a) != t.displacement(first + b))
            return t.displacement(first + a) < t.displacement(first + b);
        return a < own;
    }
    if (t.price(first + a) != t.price(first + b)) return t.price(first + a) < t.price(first + b);
    return a < b;
}

// Whether code `a` is the better choice within one feature than code `b`: cheaper, else nearer, else first.
GPUCF_FN bool better_code(int a, int b, int own, int missing, bool ordered, i64 first, Table t) {
    if (t.price(first + a) != t.price(first + b)) return t.price(first + a) < t.price(first + b);
    if (t.displacement(first + a) != t.displacement(first + b))
        return t.displacement(first + a) < t.displacement(first + b);
    return a != b && comes_first(a, b, own, missing, ordered, first, t);
}

// Best code among lo..hi (lo <= hi) of an ordered feature: the clamp, where prices rise away from the own code.
GPUCF_FN int best_in_range(int lo, int hi, int own, bool irregular, i64 first, int missing, Table t) {
    int best = clamp(own, lo, hi);
    if (!irregular) return best;
    for (int code = lo; code <= hi; ++code)
        if (better_code(code, best, own, missing, true, first, t)) best = code;
    return best;
}

// The better of `best` (-1: none yet) and the members of one set word, whose first code is `base`.
GPUCF_FN int best_in_word(u64 members, int base, int best, int own, int missing, i64 first, Table t) {
    for (; members != 0; members &= members - 1) {
        int code = base + lowest_bit(members);
        if (best < 0 || better_code(code, best, own, missing, false, first, t)) best = code;
    }
    return best;
}
