// cuda_cpu.h - run unmodified CUDA C++ kernels on the host, one fiber per CUDA thread.
// Included in front of the kernel source by g++ -include. x86-64 / SysV only.
#pragma once
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>
#include <sys/mman.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
extern "C" { void *__tsan_create_fiber(unsigned); void __tsan_destroy_fiber(void *); void *__tsan_get_current_fiber();
             void __tsan_switch_to_fiber(void *, unsigned); }
#endif
#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#if defined(CUDA_CPU_CHECK)       // one OS thread; shared memory is one section, filled with 0xff (NaN) before every block
#define __shared__ static __attribute__((section("cudashm")))
extern char __start_cudashm[] __attribute__((weak)), __stop_cudashm[] __attribute__((weak));
#else
#define __shared__ static thread_local
#endif
struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x = 1, y = 1, z = 1; };
#define SHIM_V2(T, N) struct alignas(2 * sizeof(T)) N##2 { T x, y; }; static inline N##2 make_##N##2(T a, T b) { return {a, b}; } \
    struct alignas(sizeof(T) * 4 > 16 ? 16 : sizeof(T) * 4) N##4 { T x, y, z, w; }; static inline N##4 make_##N##4(T a, T b, T c, T d) { return {a, b, c, d}; }
SHIM_V2(float, float) SHIM_V2(int, int) SHIM_V2(unsigned, uint) SHIM_V2(double, double)

namespace cuda_cpu {
enum Op { NONE, SYNCW, SHFL, BALLOT, REDMIN, REDMAX, REDADD, SYNCT };
enum State { READY, WARP, BLOCK, DONE };
struct Lane {
    uint3 tid; State st; Op op; unsigned mask; int src, line; uint64_t val, res; void *sp, *stack; unsigned cnt;
    void *fake = nullptr, *tf = nullptr;
};
struct Block {
    uint3 bid; dim3 bdim, gdim; unsigned n = 0, nw = 0; Lane L[1024] = {}; unsigned ready[32], wait[32], exited[32], cur = 0, done = 0, atbar = 0;
    void *main_sp = nullptr, *fake = nullptr, *tf = nullptr; const void *mbot = nullptr; size_t msz = 0;
    void (*thunk)(void **) = nullptr; void **args = nullptr; bool fibers = false; uint64_t rng = 0; std::string err;
    char sync[2][1024 / 32 + 1], endsync;
};
inline thread_local Block *B = nullptr;
inline thread_local Lane *cur = nullptr;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t STK = 256 << 10;
#else
constexpr size_t STK = 64 << 10;
#endif
extern "C" void shim_switch(void **save, void *load);
asm(R"(.text
.type shim_switch,@function
shim_switch: pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
 movq %rsp,(%rdi); movq %rsi,%rsp
 popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp; ret
)");
#if defined(__SANITIZE_THREAD__)
#define SHIM_NOTSAN __attribute__((no_sanitize("thread")))
#else
#define SHIM_NOTSAN
#endif
SHIM_NOTSAN inline void jump(void **save, void **fakesave, Lane *to) {   // to == nullptr: back to the scheduler
    Block *b = B; (void)fakesave; (void)b;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(fakesave, to ? to->stack : b->mbot, to ? STK : b->msz);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(to ? to->tf : b->tf, 1);
#endif
    cur = to;
    shim_switch(save, to ? to->sp : b->main_sp);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fakesave ? *fakesave : nullptr, nullptr, nullptr);
#endif
}
SHIM_NOTSAN inline Lane *pick() {                                        // next runnable lane, seeded order when rng != 0
    Block *b = B; unsigned nw = b->nw, w0 = b->cur >> 5;
    if (b->rng) { b->rng ^= b->rng << 13; b->rng ^= b->rng >> 7; b->rng ^= b->rng << 17; w0 = (b->rng >> 8) % nw; }
    for (unsigned k = 0; k < nw; ++k) {
        unsigned w = (w0 + k) % nw, r = b->ready[w]; if (!r) continue;
        unsigned rot = b->rng ? (b->rng >> 40) & 31 : (w == b->cur >> 5 ? b->cur & 31 : 0);
        unsigned x = rot ? (r >> rot) | (r << (32 - rot)) : r, l = (__builtin_ctz(x) + rot) & 31;
        b->cur = w * 32 + l; return &b->L[b->cur];
    }
    return nullptr;
}
SHIM_NOTSAN inline void park() { Lane *me = cur, *to = pick(); if (to != me) jump(&me->sp, &me->fake, to); }
[[noreturn]] SHIM_NOTSAN inline void fail(const char *what, int line) {
    Block *b = B; char t[400];
    snprintf(t, sizeof t, "%s at line %d: block (%u,%u,%u) thread (%u,%u,%u)", what, line, b->bid.x, b->bid.y, b->bid.z, cur->tid.x, cur->tid.y, cur->tid.z);
    b->err = t; if (!b->fibers) throw 0;
    Lane *me = cur; jump(&me->sp, &me->fake, nullptr); abort();
}
SHIM_NOTSAN inline void complete(unsigned w, unsigned m) {   // finish the collective on mask m once every live lane of it has arrived
    Block *b = B; Lane *L = &b->L[w * 32]; unsigned in = m & ~b->exited[w];
    if (!in || in & ~b->wait[w]) return;
    unsigned first = __builtin_ctz(in); uint64_t bits = 0, mn = ~0ull, mx = 0, sum = 0;
    for (unsigned r = in; r; r &= r - 1) {
        Lane &l = L[__builtin_ctz(r)];
        if (l.mask != m) return;                                              // waits on another mask: not this one's turn
        if (l.op != L[first].op || l.line != L[first].line) { cur = &l; fail("lanes of one mask meet at different collectives", l.line); }
        if (l.val) bits |= 1ull << (&l - L); mn = std::min(mn, l.val); mx = std::max(mx, l.val); sum += l.val;
    }
    for (unsigned r = in; r; r &= r - 1) {
        Lane &l = L[__builtin_ctz(r)]; l.st = READY;
        switch (l.op) {
            case SHFL: if (!(in >> l.src & 1)) { cur = &l; fail("shuffle reads a lane outside the mask or already exited", l.line); } l.res = L[l.src].val; break;
            case BALLOT: l.res = bits; break; case REDMIN: l.res = mn; break; case REDMAX: l.res = mx; break; case REDADD: l.res = sum; break; default: break;
        }
    }
    b->wait[w] &= ~in; b->ready[w] |= in;
}
SHIM_NOTSAN inline uint64_t collective(Op op, unsigned mask, uint64_t v, int src, int line) {
    Block *b = B; Lane *me = cur; unsigned i = me - b->L, w = i >> 5, l = i & 31;
    if (!b->fibers) fail("warp collective in plain mode (use fibers)", line);
    if (!(mask >> l & 1)) fail("calling lane is not in its own mask", line);
    me->op = op; me->mask = mask; me->val = v; me->src = src; me->line = line; me->st = WARP; b->ready[w] &= ~(1u << l); b->wait[w] |= 1u << l;
#if defined(__SANITIZE_THREAD__)
    char *s = &b->sync[me->cnt++ & 1][w]; __tsan_release(s);
#endif
    complete(w, mask); park();
#if defined(__SANITIZE_THREAD__)
    __tsan_acquire(s);
#endif
    return me->res;
}
SHIM_NOTSAN inline void release_block() {
    Block *b = B; if (!b->atbar || b->atbar + b->done < b->n) return;
    for (unsigned j = 0; j < b->n; ++j) if (b->L[j].st == BLOCK) { b->L[j].st = READY; b->ready[j >> 5] |= 1u << (j & 31); }
    b->atbar = 0;
}
SHIM_NOTSAN inline void syncthreads(int line) {
    Block *b = B; Lane *me = cur; unsigned i = me - b->L;
    if (!b->fibers) fail("__syncthreads in plain mode (use fibers)", line);
    me->st = BLOCK; me->line = line; me->op = SYNCT; b->ready[i >> 5] &= ~(1u << (i & 31)); ++b->atbar;
#if defined(__SANITIZE_THREAD__)
    char *s = &b->sync[me->cnt++ & 1][32]; __tsan_release(s);
#endif
    release_block(); park();
#if defined(__SANITIZE_THREAD__)
    __tsan_acquire(s);
#endif
}
SHIM_NOTSAN inline void entry() {
#if defined(__SANITIZE_ADDRESS__)
    const void *ob; size_t os; __sanitizer_finish_switch_fiber(nullptr, &ob, &os); if (!B->mbot) { B->mbot = ob; B->msz = os; }
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_acquire(&B->endsync);
#endif
    B->thunk(B->args);
    Block *b = B;
#if defined(__SANITIZE_THREAD__)
    __tsan_release(&b->endsync);
#endif
    Lane *me = cur; unsigned i = me - b->L;
    me->st = DONE; ++b->done; b->ready[i >> 5] &= ~(1u << (i & 31));
    b->exited[i >> 5] |= 1u << (i & 31);
    for (unsigned r = b->wait[i >> 5]; r; r &= r - 1) { Lane &l = b->L[(i & ~31u) + __builtin_ctz(r)]; if (l.st == WARP) complete(i >> 5, l.mask); }
    release_block();
    jump(&me->sp, nullptr, pick()); abort();
}
SHIM_NOTSAN inline void run_block(Block &b) {
    unsigned n = b.n = b.bdim.x * b.bdim.y * b.bdim.z; B = &b; b.nw = (n + 31) / 32; b.done = b.atbar = b.cur = 0; b.mbot = nullptr;
#if defined(CUDA_CPU_CHECK)
    if (char *p = __start_cudashm) { size_t c = __stop_cudashm - p; asm volatile("rep stosb" : "+D"(p), "+c"(c) : "a"(0xff) : "memory"); }  // past the sanitizer
#endif
    for (unsigned i = 0; i < n; ++i) { Lane &l = b.L[i]; l.tid = {i % b.bdim.x, i / b.bdim.x % b.bdim.y, i / b.bdim.x / b.bdim.y}; l.st = READY; l.cnt = 0; }
    if (!b.fibers) { try { for (unsigned i = 0; i < n; ++i) { cur = &b.L[i]; b.thunk(b.args); } } catch (int) {} return; }
    for (unsigned w = 0; w < b.nw; ++w) b.ready[w] = b.wait[w] = b.exited[w] = 0;
    for (unsigned i = 0; i < n; ++i) {
        Lane &l = b.L[i]; b.ready[i >> 5] |= 1u << (i & 31);
        if (!l.stack) l.stack = mmap(nullptr, STK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        void **s = (void **)((char *)l.stack + STK) - 2; *s = nullptr; *--s = (void *)entry; for (int k = 0; k < 6; ++k) *--s = nullptr;
        if (((uintptr_t)(s + 7) & 15) != 8) { memmove(s - 1, s, 7 * sizeof(void *)); --s; }
        l.sp = s;
#if defined(__SANITIZE_THREAD__)
        l.tf = __tsan_create_fiber(0);
#endif
    }
#if defined(__SANITIZE_THREAD__)
    b.tf = __tsan_get_current_fiber();
    __tsan_release(&b.endsync);                                    // lanes see everything before the launch
#endif
    jump(&b.main_sp, &b.fake, pick());
#if defined(__SANITIZE_THREAD__)
    __tsan_acquire(&b.endsync);
    for (unsigned i = 0; i < n; ++i) __tsan_destroy_fiber(b.L[i].tf);
#endif
    if (b.err.empty() && b.done != n) {
        unsigned i = 0; while (b.L[i].st == DONE) ++i;
        char t[300]; snprintf(t, sizeof t, "deadlock: block (%u,%u,%u): %u of %u threads finished; thread %u waits at line %d, mask %08x", b.bid.x, b.bid.y, b.bid.z, b.done, n, i, b.L[i].line, b.L[i].mask);
        b.err = t;
    }
}
inline int launch(void (*thunk)(void **), const unsigned *g, const unsigned *bl, void **args, int mode, int nthreads, uint64_t seed, char *err, int errlen) {
    if (!bl[0] || !bl[1] || !bl[2] || (uint64_t)bl[0] * bl[1] * bl[2] > 1024) return snprintf(err, errlen, "bad block size"), 1;
    uint64_t nb = (uint64_t)g[0] * g[1] * g[2]; std::atomic<uint64_t> next{0}; std::atomic<bool> bad{false};
    auto work = [&] {
        Block &b = *new Block; b.bdim = {bl[0], bl[1], bl[2]}; b.gdim = {g[0], g[1], g[2]}; b.thunk = thunk; b.args = args; b.fibers = mode;
        for (uint64_t i; (i = next++) < nb && !bad;) {
            if (seed && nb > 1) i = seed % 2 ? nb - 1 - i : i;             // block order must not matter either
            b.bid = {unsigned(i % g[0]), unsigned(i / g[0] % g[1]), unsigned(i / g[0] / g[1])}; b.rng = seed ? seed * 0x9E3779B97F4A7C15ull + i * 2 + 1 : 0;
            run_block(b);
            if (!b.err.empty() && !bad.exchange(true)) snprintf(err, errlen, "%s", b.err.c_str());
        }
        for (auto &l : b.L) if (l.stack) munmap(l.stack, STK);
        delete &b;
    };
#if defined(CUDA_CPU_CHECK) || defined(__SANITIZE_THREAD__)
    nthreads = 1;
#endif
    if (nthreads <= 1) work(); else { std::vector<std::thread> t; for (int k = 0; k < nthreads; ++k) t.emplace_back(work); for (auto &x : t) x.join(); }
    return bad;
}
// typed launch: unpack args like cuLaunchKernel, and describe the parameters so the Python side can check them
template <class T> constexpr char code() {
    using U = std::remove_cv_t<T>;
    if (std::is_same_v<U, float>) return 'f'; if (std::is_same_v<U, double>) return 'd'; if (std::is_same_v<U, bool>) return '?';
    if (std::is_integral_v<U>) { bool s = std::is_signed_v<U>; return sizeof(U) == 8 ? (s ? 'q' : 'Q') : sizeof(U) == 4 ? (s ? 'i' : 'I') : sizeof(U) == 2 ? (s ? 'h' : 'H') : (s ? 'b' : 'B'); }
    if (std::is_same_v<U, float2> || std::is_same_v<U, float4>) return 'f'; if (std::is_same_v<U, double2> || std::is_same_v<U, double4>) return 'd';
    if (std::is_same_v<U, int2> || std::is_same_v<U, int4>) return 'i'; if (std::is_same_v<U, uint2> || std::is_same_v<U, uint4>) return 'I';
    return 'S';
}
template <class T> std::string describe() {
    if constexpr (std::is_pointer_v<T>) { using P = std::remove_pointer_t<T>; return std::string(std::is_const_v<P> ? "c*" : "*") + code<P>() + std::to_string(sizeof(P)); }
    else return std::string(1, code<T>()) + std::to_string(sizeof(T));
}
template <auto F> struct K;
template <class... A, void (*F)(A...)> struct K<F> {
    template <size_t... I> static void call(void **a, std::index_sequence<I...>) { F(*(A *)a[I]...); }
    static void thunk(void **a) { call(a, std::index_sequence_for<A...>{}); }
    static const char *sig() { static std::string s = [] { std::string r; ((r += describe<A>() + ","), ...); return r; }(); return s.c_str(); }
};
template <class T> inline uint64_t pack(T v) { uint64_t r = 0; memcpy(&r, &v, sizeof v); return r; }
template <class T> inline T unpack(uint64_t r) { T v; memcpy(&v, &r, sizeof v); return v; }
} // namespace cuda_cpu
#define CUDA_CPU_EXPORT(k) extern "C" const char *k##__sig() { return cuda_cpu::K<&k>::sig(); } \
    extern "C" int k##__cpu(const unsigned *g, const unsigned *b, void **a, int mode, int nt, uint64_t seed, char *e, int el) { return cuda_cpu::launch(cuda_cpu::K<&k>::thunk, g, b, a, mode, nt, seed, e, el); }
#define threadIdx (cuda_cpu::cur->tid)
#define blockIdx (cuda_cpu::B->bid)
#define blockDim (cuda_cpu::B->bdim)
#define gridDim (cuda_cpu::B->gdim)
constexpr int warpSize = 32;
#define SHIM_LINE int line = __builtin_LINE()
#define SHIM_LANE ((int)((cuda_cpu::cur - cuda_cpu::B->L) & 31))
inline void __syncthreads(SHIM_LINE) { cuda_cpu::syncthreads(line); }
inline void __syncwarp(unsigned m = ~0u, SHIM_LINE) { cuda_cpu::collective(cuda_cpu::SYNCW, m, 0, 0, line); }
inline unsigned __ballot_sync(unsigned m, int p, SHIM_LINE) { return cuda_cpu::collective(cuda_cpu::BALLOT, m, p != 0, 0, line); }
inline int __any_sync(unsigned m, int p, SHIM_LINE) { return cuda_cpu::collective(cuda_cpu::BALLOT, m, p != 0, 0, line) != 0; }
inline int __all_sync(unsigned m, int p, SHIM_LINE) { return cuda_cpu::collective(cuda_cpu::BALLOT, m, p == 0, 0, line) == 0; }
template <class T> T __shfl_sync(unsigned m, T v, int s, int w = 32, SHIM_LINE) { int l = SHIM_LANE; return cuda_cpu::unpack<T>(cuda_cpu::collective(cuda_cpu::SHFL, m, cuda_cpu::pack(v), (l & ~(w - 1)) | (s & (w - 1)), line)); }
template <class T> T __shfl_xor_sync(unsigned m, T v, int o, int w = 32, SHIM_LINE) { int l = SHIM_LANE, s = l ^ o; if (s >= (l & ~(w - 1)) + w) s = l; return cuda_cpu::unpack<T>(cuda_cpu::collective(cuda_cpu::SHFL, m, cuda_cpu::pack(v), s, line)); }
template <class T> T __shfl_up_sync(unsigned m, T v, unsigned o, int w = 32, SHIM_LINE) { int l = SHIM_LANE, s = l - (int)o; if (s < (l & ~(w - 1))) s = l; return cuda_cpu::unpack<T>(cuda_cpu::collective(cuda_cpu::SHFL, m, cuda_cpu::pack(v), s, line)); }
template <class T> T __shfl_down_sync(unsigned m, T v, unsigned o, int w = 32, SHIM_LINE) { int l = SHIM_LANE, s = l + (int)o; if (s >= (l & ~(w - 1)) + w) s = l; return cuda_cpu::unpack<T>(cuda_cpu::collective(cuda_cpu::SHFL, m, cuda_cpu::pack(v), s, line)); }
inline unsigned __reduce_min_sync(unsigned m, unsigned v, SHIM_LINE) { return cuda_cpu::collective(cuda_cpu::REDMIN, m, v, 0, line); }
inline unsigned __reduce_max_sync(unsigned m, unsigned v, SHIM_LINE) { return cuda_cpu::collective(cuda_cpu::REDMAX, m, v, 0, line); }
inline unsigned __reduce_add_sync(unsigned m, unsigned v, SHIM_LINE) { return cuda_cpu::collective(cuda_cpu::REDADD, m, v, 0, line); }
template <class T> T atomicAdd(T *p, T v) {
    if constexpr (std::is_integral_v<T>) return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
    else { T o, n; __atomic_load(p, &o, __ATOMIC_RELAXED); do n = o + v; while (!__atomic_compare_exchange(p, &o, &n, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)); return o; } }
template <class T> T atomicCAS(T *p, T c, T v) { __atomic_compare_exchange_n(p, &c, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED); return c; }
template <class T> T atomicExch(T *p, T v) { return __atomic_exchange_n(p, v, __ATOMIC_RELAXED); }
template <class T> T atomicOr(T *p, T v) { return __atomic_fetch_or(p, v, __ATOMIC_RELAXED); }
template <class T> T atomicMin(T *p, T v) { T o = __atomic_load_n(p, __ATOMIC_RELAXED); while (v < o && !__atomic_compare_exchange_n(p, &o, v, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)); return o; }
template <class T> T atomicMax(T *p, T v) { T o = __atomic_load_n(p, __ATOMIC_RELAXED); while (v > o && !__atomic_compare_exchange_n(p, &o, v, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)); return o; }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
template <class T> T __ldg(const T *p) { return *p; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline int __float_as_int(float f) { int i; memcpy(&i, &f, 4); return i; }
inline unsigned __float_as_uint(float f) { unsigned i; memcpy(&i, &f, 4); return i; }
inline float __int_as_float(int i) { float f; memcpy(&f, &i, 4); return f; }
inline float __uint_as_float(unsigned i) { float f; memcpy(&f, &i, 4); return f; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline double __longlong_as_double(long long i) { double d; memcpy(&d, &i, 8); return d; }
inline long long __double_as_longlong(double d) { long long i; memcpy(&i, &d, 8); return i; }
inline float __double2float_rn(double d) { return (float)d; }
using std::max; using std::min;
