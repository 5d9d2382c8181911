// Labels as rules on sums and on bounds of sums (gpucf/_labels.py).
#pragma once
#include "common.cuh"

constexpr int THRESHOLD = 0, CLASS = 1, LEAD = 3;  // 2: probability
constexpr int MAY = 1, MAY_NOT = 2;  // bits: some point between the bounds meets a condition; some point does not
constexpr int ASK = -2;              // the library's own arithmetic must tell

struct Rule {
    i64 compound;
    i64 n_conditions;
    i64 n_outputs;
    i64 width;  // of yes
    const i64 *mode;
    const i64 *output;
    const double *bound;
    const double *slack;
    const double *ceiling;
    const i64 *post;
    const double *post_a;
    const double *post_b;
    const bool *is_float32;
    const i64 *begin;
    const i64 *end;
    const i64 *alternative;
    const bool *yes;
};

// The library's raw score of one output of condition `i`.
template <class Score> GPUCF_FN double raw_score(const Rule &r, int i, Score sum) {
    if (r.is_float32[i]) {
        float s = (float)sum;
        if (r.post[i] == 1) s = s / (float)r.post_a[i];
        if (r.post[i] == 2) {
            s = s * (float)r.post_a[i];
            s = s + (float)r.post_b[i];
        }
        return (double)s;
    }
    double d = (double)sum;
    if (r.post[i] == 1) d = d / r.post_a[i];
    if (r.post[i] == 2) {
        d = d * r.post_a[i];
        d = d + r.post_b[i];
    }
    return d;
}

// Whether class j is preferred to class k wherever raw_j >= low_j and raw_k <= high_k; ties go to the first.
GPUCF_FN bool surely_beats(const Rule &r, int i, int j, double low_j, int k, double high_k) {
    if (r.slack[i] > 0.0)
        return low_j - high_k > r.slack[i] * (1.0 + fabs(low_j) + fabs(high_k)) && high_k < r.ceiling[i];
    return j < k ? low_j >= high_k : low_j > high_k;
}

template <class Score> struct Sums {
    const Score *low, *high;
};

template <class Score> GPUCF_FN bool class_is_possible(const Rule &r, int i, int k, Sums<Score> s) {
    double high_k = raw_score(r, i, s.high[k]);
    for (int j = (int)r.begin[i]; j < (int)r.end[i]; ++j)
        if (j != k && surely_beats(r, i, j, raw_score(r, i, s.low[j]), k, high_k)) return false;
    return true;
}

// Probability of class `output` with raw score `own`, against the others' raw scores; rounded only roughly, which the
// slack of the rule covers.
template <class Score> GPUCF_FN double softmax_of(const Rule &r, int i, double own, const Score *others) {
    double total = 1.0;
    for (int c = (int)r.begin[i]; c < (int)r.end[i]; ++c)
        if (c != (int)r.output[i]) total += exp(least(raw_score(r, i, others[c]) - own, 700.0));
    return 1.0 / total;
}

// MAY and MAY_NOT of one condition, for all vectors of sums between the bounds.
template <class Score> GPUCF_FN int simple_outlook(const Rule &r, int i, Sums<Score> s) {
    int c = (int)r.output[i];
    bool may = false, may_not = false;
    if (r.mode[i] == CLASS) {
        for (int k = (int)r.begin[i]; k < (int)r.end[i]; ++k)
            if (class_is_possible(r, i, k, s)) {
                if (r.yes[i * r.width + k - r.begin[i]])
                    may = true;
                else
                    may_not = true;
            }
        return may * MAY + may_not * MAY_NOT;
    }
    if (r.mode[i] == LEAD) {  // a rounded difference is monotone in both of its terms
        double low_c = raw_score(r, i, s.low[c]), high_c = raw_score(r, i, s.high[c]);
        may = true;
        for (int k = (int)r.begin[i]; k < (int)r.end[i]; ++k)
            if (k != c) {
                may = may && high_c - raw_score(r, i, s.low[k]) >= r.bound[i];
                may_not = may_not || low_c - raw_score(r, i, s.high[k]) < r.bound[i];
            }
        return may * MAY + may_not * MAY_NOT;
    }
    if (r.mode[i] == THRESHOLD) {
        may = (double)s.high[c] >= r.bound[i];
        may_not = (double)s.low[c] < r.bound[i];
    } else {
        may = softmax_of(r, i, raw_score(r, i, s.high[c]), s.low) >= r.bound[i] - r.slack[i];
        may_not = softmax_of(r, i, raw_score(r, i, s.low[c]), s.high) < r.bound[i] + r.slack[i];
    }
    return r.yes[i * r.width + 1] ? may * MAY + may_not * MAY_NOT : may_not * MAY + may * MAY_NOT;
}

// MAY and MAY_NOT of a compound rule: some alternative may hold; no alternative surely holds.
template <class Score> GPUCF_FN int compound_outlook(const Rule &r, Sums<Score> s) {
    bool may = false, sure = false, alternative_may = true, alternative_sure = true;
    for (int i = 0; i < (int)r.n_conditions; ++i) {
        int outlook = simple_outlook(r, i, s);
        alternative_may &= (outlook & MAY) != 0;
        alternative_sure &= (outlook & MAY_NOT) == 0;
        if (i + 1 == (int)r.n_conditions || r.alternative[i + 1] != r.alternative[i]) {
            may |= alternative_may;
            sure |= alternative_sure;
            alternative_may = alternative_sure = true;
        }
    }
    return may * MAY + !sure * MAY_NOT;
}

// MAY: `label` is possible between the bounds; MAY_NOT: some other label is possible.
template <class Score> GPUCF_FN int outlook_of(const Rule &r, int label, Sums<Score> s) {
    if (!r.compound && r.mode[0] == CLASS) {
        int possible = MAY, other = 0;
        for (int j = 0; j < (int)r.n_outputs; ++j) {
            if (j == label) continue;
            if (surely_beats(r, 0, j, raw_score(r, 0, s.low[j]), label, raw_score(r, 0, s.high[label]))) possible = 0;
            if (!surely_beats(r, 0, label, raw_score(r, 0, s.low[label]), j, raw_score(r, 0, s.high[j])))
                other = MAY_NOT;
        }
        return possible + other;
    }
    int outlook = r.compound ? compound_outlook(r, s) : simple_outlook(r, 0, s);
    return label == 1 ? outlook : (outlook >> 1) | ((outlook & 1) << 1);
}

// Label of exact sums, or ASK.
template <class Score> GPUCF_FN int label_of_sums(const Rule &r, const Score *sums) {
    if (!r.compound && r.mode[0] == CLASS) {
        if (r.slack[0] == 0.0) {
            int best = 0;
            for (int k = 1; k < (int)r.n_outputs; ++k)
                if (raw_score(r, 0, sums[k]) > raw_score(r, 0, sums[best])) best = k;
            return best;
        }
        int found = -1;
        for (int k = 0; k < (int)r.n_outputs; ++k)
            if (class_is_possible(r, 0, k, Sums<Score>{sums, sums})) {
                if (found >= 0) return ASK;
                found = k;
            }
        return found >= 0 ? found : ASK;
    }
    int outlook = outlook_of(r, 1, Sums<Score>{sums, sums});
    return outlook == MAY + MAY_NOT ? ASK : 2 - outlook;
}
