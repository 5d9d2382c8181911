// Ensemble search: one warp a row, its lanes over trees, features and codes; and one thread a row.
//
// Warps take rows from a queue until none is left. A row ends with its answer, at its node limit, in a question to the
// library's arithmetic, or in want of a deeper stack; the host queues it again where need be.
#include "search_row.cuh"

struct Warp {
    static constexpr int count = 32;
    static constexpr unsigned all = 0xffffffffu;
    GPUCF_FN int lane() const { return threadIdx.x & 31; }
    GPUCF_FN void sync() const { __syncwarp(all); }
    GPUCF_FN bool any(bool x) const { return __any_sync(all, x); }
    template <class T, class F> GPUCF_FN T reduce(T x, F join) const {
        for (int step = 16; step > 0; step >>= 1) x = join(x, __shfl_xor_sync(all, x, step));
        return x;
    }
    GPUCF_FN double sum(double x) const {
        return reduce(x, [](double a, double b) { return a + b; });
    }
    GPUCF_FN double smallest(double x) const {
        return reduce(x, [](double a, double b) { return least(a, b); });
    }
    GPUCF_FN double largest(double x) const {
        return reduce(x, [](double a, double b) { return most(a, b); });
    }
    GPUCF_FN u64 largest(u64 x) const {
        return reduce(x, [](u64 a, u64 b) { return most(a, b); });
    }
    GPUCF_FN i32 smallest(i32 x) const {
        return reduce(x, [](i32 a, i32 b) { return least(a, b); });
    }
    GPUCF_FN u64 prefix(u64 x) const {
        for (int step = 1; step < 32; step <<= 1) {
            u64 below = __shfl_up_sync(all, x, step);
            if (lane() >= step) x += below;
        }
        return x;
    }
    GPUCF_FN u64 last(u64 x) const { return __shfl_sync(all, x, 31); }
    GPUCF_FN void add(u64 *to, u64 x) const { atomicAdd(to, x); }
};

template <class Score, class Lanes>
GPUCF_FN void search_all(const Prices &prices, const Rule &rule, const Space &space, const Trees<Score> &trees,
                         const Work &work, const Rows &rows, i64 worker, Lanes lanes) {
    if (worker >= work.n_workers) return;
    while (true) {
        u64 i = 0;
        if (lanes.lane() == 0) i = atomicAdd(rows.next, (u64)1);
        if (Lanes::count > 1) i = lanes.largest(i);
        if (i >= (u64)rows.n_rows) return;
        i64 row = rows.which[i];
        Query<Score, Lanes> q{prices, rule, space, trees, work, work.arena + worker * work.worker_bytes,
                              rows.own + row * space.n_features, lanes};
        int status = search_row(q, rows, row);
        if (lanes.lane() == 0) rows.status[row] = (i8)status;
        lanes.sync();
    }
}

extern "C" __global__ void __launch_bounds__(128)
search_f32(const Prices prices, const Rule rule, const Space space, const Trees<float> trees, const Work work,
           const Rows rows) {
    i64 thread = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    search_all<float>(prices, rule, space, trees, work, rows, thread >> 5, Warp());
}

extern "C" __global__ void __launch_bounds__(128)
search_f64(const Prices prices, const Rule rule, const Space space, const Trees<double> trees, const Work work,
           const Rows rows) {
    i64 thread = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    search_all<double>(prices, rule, space, trees, work, rows, thread >> 5, Warp());
}

extern "C" __global__ void __launch_bounds__(128)
search_one_lane_f32(const Prices prices, const Rule rule, const Space space, const Trees<float> trees, const Work work,
                    const Rows rows) {
    i64 thread = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    search_all<float>(prices, rule, space, trees, work, rows, thread, OneLane());
}

extern "C" __global__ void __launch_bounds__(128)
search_one_lane_f64(const Prices prices, const Rule rule, const Space space, const Trees<double> trees, const Work work,
                    const Rows rows) {
    i64 thread = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    search_all<double>(prices, rule, space, trees, work, rows, thread, OneLane());
}
