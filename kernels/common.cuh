// What all kernels share: types, bits, and how lanes of one query work together.
//
// Files *.cuh hold the mathematics. They know neither thread nor block numbers and compile for the host as well (g++
// -ffp-contract=off). Every floating-point operation here is one IEEE rounding: no fused multiply-add, no
// flush-to-zero, no fast-math (design, rule 6); the build flags see to it, and tests compare bits.
#pragma once

#define GPUCF_FN __device__ inline

typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef long long i64;
typedef unsigned long long u64;

constexpr i8 ORDERED = 0;
constexpr double LARGEST_PRICE = 1e300;

GPUCF_FN double infinity() { return __longlong_as_double(0x7ff0000000000000LL); }
GPUCF_FN int lowest_bit(u64 x) { return __ffsll((long long)x) - 1; }
GPUCF_FN int highest_bit(u64 x) { return 63 - __clzll((long long)x); }
template <class T> GPUCF_FN T least(T a, T b) { return b < a ? b : a; }
template <class T> GPUCF_FN T most(T a, T b) { return b > a ? b : a; }
GPUCF_FN int clamp(int x, int lo, int hi) { return least(most(x, lo), hi); }

// One lane does all the work of a query. The warp of search.cu has the same interface with 32 lanes; since every
// sum that decides anything is either ordered or of integers, both take the same way through a query.
struct OneLane {
    static constexpr int count = 1;
    GPUCF_FN int lane() const { return 0; }
    GPUCF_FN void sync() const {}
    GPUCF_FN bool any(bool x) const { return x; }
    GPUCF_FN double sum(double x) const { return x; }
    GPUCF_FN double smallest(double x) const { return x; }
    GPUCF_FN double largest(double x) const { return x; }
    GPUCF_FN u64 largest(u64 x) const { return x; }
    GPUCF_FN i32 smallest(i32 x) const { return x; }
    GPUCF_FN u64 prefix(u64 x) const { return x; }           // inclusive sums over lanes
    GPUCF_FN u64 last(u64 x) const { return x; }             // the last lane's value
    GPUCF_FN void add(u64 *to, u64 x) const { *to += x; }    // several lanes may add to one place
};

// Prices and displacements of all codes of one row; `stride` lets neighbouring threads have neighbouring words.
struct Table {
    double *prices, *displacements;
    i64 stride;
    GPUCF_FN double &price(i64 code) const { return prices[code * stride]; }
    GPUCF_FN double &displacement(i64 code) const { return displacements[code * stride]; }
};
