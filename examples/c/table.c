/*
 * Sums a table that is larger than its budget of RAM: `table MEBIBYTES RAM_MEBIBYTES`, such as `table 1024 256`.
 *
 * Only the table is managed; the rest of the program is left alone. Build and run it, after `cargo xtask install`:
 *
 *     cc -O2 examples/c/table.c -o table $(pkg-config --cflags --libs usw)
 *     ./table 1024 256
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <usw.h>

static int fail(const char *what) {
    fprintf(stderr, "%s: %s (%s)\n", what, usw_error(), strerror(errno));
    return 1;
}

static uint64_t sum(const uint64_t *values, size_t count) {
    uint64_t result = 0;
    for (size_t index = 0; index < count; index++) result += values[index];
    return result;
}

int main(int word_count, char **words) {
    size_t mebibytes = word_count > 1 ? strtoul(words[1], NULL, 10) : 1024;
    uint64_t ram_mebibytes = word_count > 2 ? strtoul(words[2], NULL, 10) : 256;

    usw_opts opts = {.size = sizeof opts, .ram = ram_mebibytes << 20};
    usw_pool *pool = usw_pool_create(&opts);
    if (!pool) return fail("no pool");

    size_t count = mebibytes << 17;
    uint64_t *table = usw_malloc(pool, count * sizeof *table);
    if (!table) return fail("no table");
    for (size_t index = 0; index < count; index++) table[index] = index;

    /* The first half is not needed for a while. */
    if (usw_advise(table, count / 2 * sizeof *table, USW_COLD) != 0) return fail("no advice");

    uint64_t total = sum(table + count / 2, count - count / 2) + sum(table, count / 2);
    uint64_t expected = (uint64_t)count * (count - 1) / 2;
    printf("sum %" PRIu64 ", which is %s\n", total, total == expected ? "right" : "WRONG");

    usw_stats stats = {.size = sizeof stats};
    if (usw_get_stats(&stats) != 0) return fail("no stats");
    printf("in RAM %" PRIu64 " of %zu MiB, budget %" PRIu64 " MiB; compressed pages take %" PRIu64
           " MiB of it, and %" PRIu64 " MiB are in the swap file\n",
           stats.used_bytes >> 20, mebibytes, stats.ram_bytes >> 20, stats.pool_bytes >> 20,
           stats.swap_file_bytes >> 20);

    usw_free(pool, table);
    usw_pool_destroy(pool);
    return total == expected ? 0 : 1;
}
