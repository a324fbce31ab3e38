// The C library in a C++ program: a pool as an allocator of the standard library, in a vector of four times its budget.
// Prints OK at its end. `tests/tests/c_library.rs` compiles and runs it.

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include <sys/mman.h>

#include <usw.h>

namespace {

constexpr std::size_t ram = std::size_t{48} << 20;

struct Destroy {
    void operator()(usw_pool *pool) const { usw_pool_destroy(pool); }
};
using Pool = std::unique_ptr<usw_pool, Destroy>;

template <typename T> struct Allocator {
    using value_type = T;
    usw_pool *pool;

    explicit Allocator(usw_pool *from) : pool(from) {}
    template <typename U> Allocator(const Allocator<U> &other) : pool(other.pool) {}

    T *allocate(std::size_t count) {
        void *block = usw_calloc(pool, count, sizeof(T));
        if (!block) throw std::bad_alloc();
        return static_cast<T *>(block);
    }
    void deallocate(T *block, std::size_t) { usw_free(pool, block); }
    template <typename U> bool operator==(const Allocator<U> &) const { return true; }
    template <typename U> bool operator!=(const Allocator<U> &) const { return false; }
};

int fail(const char *what) {
    std::printf("FAIL %s: %s (%s)\n", what, usw_error(), std::strerror(errno));
    return 1;
}

} // namespace

int main() {
    usw_opts opts{};
    opts.size = sizeof opts;
    opts.ram = ram;
    opts.dir = "/var/tmp:1G";
    Pool pool(usw_pool_create(&opts));
    if (!pool) return fail("no pool");

    // It grows by doubling, and lets go of what it had.
    std::vector<std::uint64_t, Allocator<std::uint64_t>> numbers{Allocator<std::uint64_t>(pool.get())};
    const std::uint64_t count = 4 * ram / sizeof(std::uint64_t);
    for (std::uint64_t number = 0; number < count; number++) numbers.push_back(number * number);
    for (std::uint64_t number = 0; number < count; number++)
        if (numbers[number] != number * number) return fail("a number is wrong");

    bool is_thrown = false;
    try {
        numbers.reserve(std::size_t{1} << 57);
    } catch (const std::bad_alloc &) {
        is_thrown = errno == ENOMEM;
    }
    if (!is_thrown) return fail("what is too large was given");

    usw_stats stats{};
    stats.size = sizeof stats;
    if (usw_get_stats(&stats) != 0) return fail("no stats");
    if (stats.ram_bytes != ram || stats.resident_bytes > ram + (ram >> 3)) return fail("it is not within its budget");

    void *map = usw_map(pool.get(), ram);
    if (map == MAP_FAILED || usw_advise(map, ram, USW_COLD) != 0 || usw_unmap(map, ram) != 0) return fail("no mapping");
    std::printf("OK\n");
    return 0;
}
