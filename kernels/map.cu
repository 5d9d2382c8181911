// Map queries: one thread a row. Threads take rows until none is left; the work space is for `n_threads` of them.
#include "map.cuh"

GPUCF_FN Table table_of(const Map &m, i64 thread) {
    return Table{m.price + thread, m.displacement + thread, m.n_threads};
}

extern "C" __global__ void __launch_bounds__(128) map_rows(const Prices prices, const Map map) {
    i64 thread = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= map.n_threads) return;
    for (i64 i = thread; i < map.n_rows; i += map.n_threads)
        map_row(prices, map, map.rows[i], table_of(map, thread));
}

extern "C" __global__ void __launch_bounds__(128) map_rows_naive(const Prices prices, const Map map) {
    i64 thread = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= map.n_threads) return;
    for (i64 i = thread; i < map.n_rows; i += map.n_threads)
        map_row_naive(prices, map, map.rows[i], table_of(map, thread));
}
