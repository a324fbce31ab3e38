/*
 * What the C library promises, seen by a C program: `library MODE`, one case a mode. Prints OK at its end, or what is
 * wrong. `tests/tests/c_library.rs` compiles and runs it, with USWAP_COMMAND.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <usw.h>

enum { PAGE = 4096, WORDS = PAGE / 8 };
#define MIB ((size_t)1 << 20)
#define RAM (48 * MIB)

static void fail(const char *form, ...) {
    va_list words;
    va_start(words, form);
    printf("FAIL ");
    vprintf(form, words);
    printf("\n  errno %d (%s), usw_error: %s\n", errno, strerror(errno), usw_error());
    va_end(words);
    exit(1);
}

#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) fail("line %d: %s", __LINE__, #condition);                                                   \
    } while (0)

/* A call that must fail so: with that errno, and these words in its sentence. */
#define MUST_SAY(call, number, words)                                                                                  \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        if (!(call)) fail("line %d: it did not fail: %s", __LINE__, #call);                                            \
        if (errno != (number)) fail("line %d: errno is not %s after %s", __LINE__, #number, #call);                    \
        if (!strstr(usw_error(), words)) fail("line %d: nothing of '%s' after %s", __LINE__, words, #call);            \
    } while (0)

static usw_opts options(uint64_t ram) {
    usw_opts opts = {.size = sizeof opts, .ram = ram, .dir = "/var/tmp:1G"};
    return opts;
}

static usw_pool *new_pool(void) {
    usw_opts opts = options(RAM);
    usw_pool *pool = usw_pool_create(&opts);
    if (!pool) fail("no pool");
    return pool;
}

/* A page of content: half random, so that it does not compress away, and different for each page and seed. */
static uint64_t word_of(uint64_t seed, uint64_t page, unsigned word) {
    uint64_t value = seed * 0x9e3779b97f4a7c15u + page * 0xbf58476d1ce4e5b9u + word + 1;
    value ^= value >> 29;
    value *= 0x94d049bb133111ebu;
    value ^= value >> 32;
    return word % 2 ? page : value;
}

static void fill(void *start, size_t bytes, uint64_t seed) {
    uint64_t *words = start;
    for (size_t index = 0; index < bytes / 8; index++)
        words[index] = word_of(seed, index / WORDS, (unsigned)(index % WORDS));
}

static void verify(const void *start, size_t bytes, uint64_t seed) {
    const uint64_t *words = start;
    for (size_t index = 0; index < bytes / 8; index++)
        if (words[index] != word_of(seed, index / WORDS, (unsigned)(index % WORDS)))
            fail("content of seed %lu is wrong at byte %zu", (unsigned long)seed, index * 8);
}

static void must_be_zeros(const void *start, size_t bytes) {
    const char *content = start;
    for (size_t index = 0; index < bytes; index++)
        if (content[index]) fail("byte %zu is not zero", index);
}

/* Resident memory of this process, in bytes. */
static size_t resident(void) {
    char line[256];
    size_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    MUST(file);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "VmRSS: %zu kB", &kib) == 1) break;
    }
    fclose(file);
    MUST(kib > 0);
    return kib * 1024;
}

/* How many pages of a range are in RAM, as the kernel sees it. */
static size_t present_pages(const void *start, size_t bytes) {
    size_t count = 0, pages = bytes / PAGE;
    int file = open("/proc/self/pagemap", O_RDONLY);
    MUST(file >= 0);
    for (size_t page = 0; page < pages; page++) {
        uint64_t entry = 0;
        off_t at = (off_t)(((uintptr_t)start / PAGE + page) * 8);
        MUST(pread(file, &entry, sizeof entry, at) == (ssize_t)sizeof entry);
        count += entry >> 63;
    }
    close(file);
    return count;
}

/* AddressSanitizer has memory of its own, which counts. */
#ifdef __SANITIZE_ADDRESS__
#define MARGIN (24 * MIB)
#else
#define MARGIN (4 * MIB)
#endif

static void must_be_within_budget(void) {
    size_t bytes = resident();
    if (bytes > RAM + MARGIN) fail("%zu KiB are resident", bytes >> 10);
}

/* An array of four times the budget. */
static void array(void) {
    usw_pool *pool = new_pool();
    size_t bytes = 4 * RAM;
    MUST(usw_is_limited() == 1);
    char *table = usw_malloc(pool, bytes);
    MUST(table && (uintptr_t)table % PAGE == 0);
    MUST(usw_usable_size(pool, table) == bytes);
    for (size_t at = 0; at < bytes; at += 8 * MIB) {
        fill(table + at, 8 * MIB, at);
        must_be_within_budget();
    }
    for (int round = 0; round < 2; round++) {
        for (size_t at = 0; at < bytes; at += 8 * MIB) {
            verify(table + at, 8 * MIB, at);
            must_be_within_budget();
        }
    }
    MUST(present_pages(table, bytes) < bytes / PAGE / 2);

    usw_stats stats = {.size = sizeof stats};
    MUST(usw_get_stats(&stats) == 0);
    MUST(stats.ram_bytes == RAM);
    MUST(stats.used_bytes > RAM / 4 && stats.used_bytes < RAM + MARGIN);
    MUST(stats.resident_bytes > MIB && stats.resident_bytes < RAM + MARGIN);
    MUST(stats.pool_bytes > MIB && stats.pool_bytes < RAM);
    MUST(stats.pool_bytes_max >= stats.pool_bytes && stats.pool_bytes_max < RAM);
    /* Half of the content cannot be compressed. */
    MUST(stats.swap_file_bytes > 16 * MIB && stats.swap_file_bytes < bytes);

    /* The handle goes, and what was taken from it stays. */
    usw_pool_destroy(pool);
    verify(table, 8 * MIB, 0);
    usw_free(NULL, table);
    MUST(usw_is_limited() == 1);
    pool = new_pool();
    usw_pool *other = usw_pool_create(NULL);
    MUST(other && other != pool);
    usw_pool_destroy(pool);
    usw_pool_destroy(other);
}

/* malloc and its family, large and small. */
static void blocks(void) {
    static const size_t sizes[] = {1,       100,      5000,        256 * 1024 - 1, 256 * 1024, 256 * 1024 + 1,
                                   MIB + 7, 60 * MIB, 200 * MIB,   70 * MIB,       300 * 1024, 8,
                                   MIB,     MIB,      2 * MIB + 1, 16};
    usw_pool *pool = new_pool();
    usw_free(pool, NULL);
    MUST(usw_usable_size(pool, NULL) == 0);
    char *nothing = usw_malloc(pool, 0);
    MUST(nothing && usw_usable_size(pool, nothing) >= 1);
    nothing[0] = 1;
    nothing = usw_realloc(pool, nothing, 0);
    MUST(nothing && nothing[0] == 1);
    usw_free(pool, nothing);

    char *block = usw_realloc(pool, NULL, 8);
    MUST(block);
    fill(block, 8, 1);
    size_t filled = 8;
    for (unsigned index = 0; index < sizeof sizes / sizeof sizes[0]; index++) {
        size_t bytes = sizes[index];
        block = usw_realloc(pool, block, bytes);
        MUST(block && (uintptr_t)block % 16 == 0);
        MUST(usw_usable_size(pool, block) >= bytes && usw_usable_size(pool, block) < bytes + PAGE);
        verify(block, filled < bytes ? filled : bytes, 1);
        if (filled < bytes) fill(block, bytes, 1);
        filled = bytes;
        must_be_within_budget();
    }
    /* It moves while others lie behind it, and is still as it was. */
    char *neighbours[4];
    fill(block, 16, 1);
    block = usw_realloc(pool, block, 12 * MIB);
    MUST(block);
    fill(block, 12 * MIB, 1);
    for (int index = 0; index < 4; index++) {
        neighbours[index] = usw_malloc(pool, 20 * MIB);
        MUST(neighbours[index]);
        fill(neighbours[index], 20 * MIB, 10 + (uint64_t)index);
    }
    block = usw_realloc(pool, block, 90 * MIB);
    MUST(block);
    verify(block, 12 * MIB, 1);
    must_be_zeros(block + 12 * MIB, 78 * MIB);
    errno = 77;
    usw_free(pool, block);
    MUST(errno == 77);
    for (int index = 0; index < 4; index++) {
        verify(neighbours[index], 20 * MIB, 10 + (uint64_t)index);
        usw_free(pool, neighbours[index]);
    }

    /* Blocks of calloc are zeros, also at addresses that were used before. */
    for (int round = 0; round < 3; round++) {
        char *large = usw_calloc(pool, 3, MIB), *small = usw_calloc(pool, 100, 10);
        MUST(large && small);
        must_be_zeros(large, 3 * MIB);
        must_be_zeros(small, 1000);
        memset(large, 1, 3 * MIB);
        memset(small, 1, 1000);
        usw_free(pool, large);
        usw_free(pool, small);
    }

    /* What is too much is refused, and a block that cannot grow is as it was. */
    block = usw_malloc(pool, MIB);
    MUST(block);
    fill(block, MIB, 3);
    volatile size_t too_much = SIZE_MAX, half = SIZE_MAX / 2;
    MUST_SAY(usw_malloc(pool, too_much) == NULL, ENOMEM, "Cannot allocate memory");
    MUST_SAY(usw_malloc(pool, half) == NULL, ENOMEM, "Cannot allocate memory");
    MUST_SAY(usw_malloc(pool, (size_t)1 << 60) == NULL, ENOMEM, "Cannot allocate memory");
    MUST_SAY(usw_calloc(pool, half, 4) == NULL, ENOMEM, "Cannot allocate memory");
    MUST_SAY(usw_realloc(pool, block, too_much) == NULL, ENOMEM, "Cannot allocate memory");
    MUST_SAY(usw_realloc(pool, block, (size_t)1 << 60) == NULL, ENOMEM, "Cannot allocate memory");
    verify(block, MIB, 3);
    MUST(usw_usable_size(pool, block) == MIB);
    usw_free(pool, block);
    MUST_SAY(usw_malloc(NULL, 1) == NULL, EINVAL, "the pool is NULL");
    MUST_SAY(usw_calloc(NULL, 1, 1) == NULL, EINVAL, "the pool is NULL");
    MUST_SAY(usw_realloc(NULL, NULL, 1) == NULL, EINVAL, "the pool is NULL");
    usw_pool_destroy(pool);
}

/* So much that the run has no tables for it: that is refused, and what is there is as it was. */
static void tables(void) {
    usw_pool *pool = new_pool();
    char *block = usw_malloc(pool, MIB);
    MUST(block);
    fill(block, MIB, 1);
    MUST_SAY(usw_realloc(pool, block, (size_t)1 << 38) == NULL, ENOMEM, "page tables of the run");
    MUST_SAY(usw_malloc(pool, (size_t)1 << 38) == NULL, ENOMEM, "page tables of the run");
    MUST_SAY(usw_map(pool, (size_t)1 << 38) == MAP_FAILED, ENOMEM, "page tables of the run");
    verify(block, MIB, 1);
    MUST(usw_usable_size(pool, block) == MIB);
    block = usw_realloc(pool, block, 2 * MIB);
    MUST(block);
    verify(block, MIB, 1);
    usw_free(pool, block);
    usw_pool_destroy(pool);
}

/* Blocks that threads hand to each other. */
enum { THREADS = 4, SHELVES = 16, ROUNDS = 300 };
static struct {
    pthread_mutex_t lock;
    char *block;
    size_t bytes;
    uint64_t seed;
} shelves[SHELVES];

static void *trade(void *pool) {
    static unsigned last;
    unsigned random = __sync_add_and_fetch(&last, 1) * 2654435761u;
    for (int round = 0; round < ROUNDS; round++) {
        random = random * 1664525u + 1013904223u;
        unsigned shelf = (random >> 8) % SHELVES;
        size_t bytes = (random >> 20) % 2 ? 64 * 1024 : 256 * 1024 + (random >> 12) % (4 * MIB);
        pthread_mutex_lock(&shelves[shelf].lock);
        char *block = shelves[shelf].block;
        size_t kept = shelves[shelf].bytes < bytes ? shelves[shelf].bytes : bytes;
        if (block) verify(block, shelves[shelf].bytes, shelves[shelf].seed);
        if (random % 3 == 0 && block) {
            block = usw_realloc(pool, block, bytes);
            MUST(block);
            verify(block, kept, shelves[shelf].seed);
        } else {
            usw_free(pool, block);
            block = usw_malloc(pool, bytes);
            MUST(block);
        }
        fill(block, bytes, random);
        shelves[shelf].block = block;
        shelves[shelf].bytes = bytes;
        shelves[shelf].seed = random;
        pthread_mutex_unlock(&shelves[shelf].lock);
    }
    return NULL;
}

static void threads(void) {
    usw_pool *pool = new_pool();
    pthread_t ids[THREADS];
    for (int shelf = 0; shelf < SHELVES; shelf++) pthread_mutex_init(&shelves[shelf].lock, NULL);
    char *rest = usw_malloc(pool, RAM);
    MUST(rest);
    fill(rest, RAM, 5);
    for (int index = 0; index < THREADS; index++) MUST(pthread_create(&ids[index], NULL, trade, pool) == 0);
    for (int index = 0; index < THREADS; index++) MUST(pthread_join(ids[index], NULL) == 0);
    for (int shelf = 0; shelf < SHELVES; shelf++) {
        if (!shelves[shelf].block) continue;
        verify(shelves[shelf].block, shelves[shelf].bytes, shelves[shelf].seed);
        usw_free(pool, shelves[shelf].block);
    }
    verify(rest, RAM, 5);
    usw_free(pool, rest);
    usw_pool_destroy(pool);
}

/* What is told of the use of memory. */
static void advice(void) {
    usw_pool *pool = new_pool();
    size_t bytes = 20 * MIB;
    char *map = usw_map(pool, bytes);
    MUST(map != MAP_FAILED && (uintptr_t)map % PAGE == 0);
    must_be_zeros(map, bytes);
    fill(map, bytes, 1);
    size_t before = resident();
    MUST(present_pages(map, bytes) == bytes / PAGE);
    MUST(usw_advise(map, bytes, USW_PAGEOUT) == 0);
    MUST(present_pages(map, bytes) == 0);
    /* The compressed pages of half the size may be resident. */
    size_t after = resident();
    if (after > before - bytes / 4) fail("%zu KiB were resident, and %zu are", before >> 10, after >> 10);
    /* There is room for all of it. */
    MUST(usw_advise(map, bytes, USW_WILLNEED) == 0);
    MUST(present_pages(map, bytes) > bytes / PAGE / 2);
    verify(map, bytes, 1);

    /* Only whole pages of a range are dead. */
    MUST(usw_advise(map + 1, 3 * PAGE, USW_DEAD) == 0);
    verify(map, PAGE, 1);
    must_be_zeros(map + PAGE, 2 * PAGE);
    MUST(((uint64_t *)map)[3 * WORDS] == word_of(1, 3, 0));
    MUST(usw_advise(map, bytes, USW_PAGEOUT) == 0);
    MUST(usw_advise(map, bytes / 2, USW_DEAD) == 0);
    must_be_zeros(map, bytes / 2);
    for (size_t page = bytes / PAGE / 2; page < bytes / PAGE; page++)
        MUST(((uint64_t *)map)[page * WORDS] == word_of(1, page, 0));

    /* What is cold goes before what is older. */
    fill(map, bytes, 2);
    char *cold = usw_map(pool, 8 * MIB);
    MUST(cold != MAP_FAILED);
    fill(cold, 8 * MIB, 3);
    MUST(usw_advise(cold, 8 * MIB, USW_COLD) == 0);
    verify(map, bytes, 2);
    char *rest = usw_map(pool, 20 * MIB);
    MUST(rest != MAP_FAILED);
    fill(rest, 20 * MIB, 4);
    size_t cold_left = present_pages(cold, 8 * MIB), left = present_pages(map, bytes);
    if (cold_left * bytes / MIB > left * 8) fail("%zu cold pages stayed, and %zu others", cold_left, left);
    verify(cold, 8 * MIB, 3);

    MUST(usw_advise(map, 0, USW_DEAD) == 0);
    MUST_SAY(usw_advise(map, bytes, 0) == -1, EINVAL, "no such advice");
    MUST_SAY(usw_advise(map, bytes, 5) == -1, EINVAL, "no such advice");
    MUST_SAY(usw_advise(NULL, bytes, USW_COLD) == -1, EINVAL, "no memory of a program");
    MUST_SAY(usw_advise(map, SIZE_MAX, USW_COLD) == -1, EINVAL, "no memory of a program");
    MUST(usw_unmap(cold, 8 * MIB) == 0);
    MUST_SAY(usw_advise(cold, 8 * MIB, USW_COLD) == -1, ENOMEM, "Cannot allocate memory");
    MUST_SAY(usw_unmap(map + 1, PAGE) == -1, EINVAL, "Invalid argument");
    MUST_SAY(usw_unmap(map, 0) == -1, EINVAL, "Invalid argument");
    MUST_SAY(usw_map(pool, 0) == MAP_FAILED, EINVAL, "at least one byte");
    MUST_SAY(usw_map(NULL, 1) == MAP_FAILED, EINVAL, "the pool is NULL");
    MUST_SAY(usw_map(pool, SIZE_MAX) == MAP_FAILED, ENOMEM, "Cannot allocate memory");
    /* A part of a mapping can be given back. */
    MUST(usw_unmap(map, 4 * MIB) == 0);
    for (size_t page = 4 * MIB / PAGE; page < bytes / PAGE; page++)
        MUST(((uint64_t *)map)[page * WORDS] == word_of(2, page, 0));
    MUST(usw_unmap(map + 4 * MIB, bytes - 4 * MIB) == 0);
    MUST(usw_unmap(rest, 20 * MIB) == 0);
    usw_pool_destroy(pool);
}

/* Memory that stays in RAM while all else has to go. */
static void pin(void) {
    usw_pool *pool = new_pool();
    size_t bytes = 8 * MIB, more = 3 * RAM;
    char *kept = usw_malloc(pool, bytes), *other = usw_malloc(pool, bytes), *rest = usw_map(pool, more);
    MUST(kept && other && rest != MAP_FAILED);
    fill(kept, bytes, 1);
    fill(other, bytes, 2);
    MUST(usw_advise(kept, bytes, USW_PAGEOUT) == 0);
    MUST(present_pages(kept, bytes) < bytes / PAGE);
    MUST(usw_pin(kept, bytes) == 0);
    MUST(present_pages(kept, bytes) == bytes / PAGE);
    fill(rest, more, 3);
    MUST(present_pages(kept, bytes) == bytes / PAGE);
    MUST(present_pages(other, bytes) < bytes / PAGE);
    MUST(usw_advise(kept, bytes, USW_PAGEOUT) == 0);
    MUST(present_pages(kept, bytes) == bytes / PAGE);
    verify(kept, bytes, 1);
    MUST(usw_unpin(kept, bytes) == 0);
    MUST(usw_advise(kept, bytes, USW_PAGEOUT) == 0);
    MUST(present_pages(kept, bytes) < bytes / PAGE);
    verify(kept, bytes, 1);
    verify(other, bytes, 2);
    verify(rest, more, 3);
    /* So much can be kept, and no more. */
    size_t count = 0;
    while (count < 1000 && usw_pin(rest + 2 * count * PAGE, PAGE) == 0) count++;
    MUST(count > 100 && count < 1000 && errno == ENOMEM && strstr(usw_error(), "too many"));
    MUST(usw_unpin(rest, more) == 0);
    MUST(usw_pin(rest, PAGE) == 0);
    MUST_SAY(usw_pin(NULL, PAGE) == -1, EINVAL, "no memory of a program");
    MUST_SAY(usw_unpin(NULL, PAGE) == -1, EINVAL, "no memory of a program");
    usw_free(pool, kept);
    usw_free(pool, other);
    MUST(usw_unmap(rest, more) == 0);
    usw_pool_destroy(pool);
}

/* What is wrong is said, and leaves the process as it was. */
static void errors(void) {
    usw_opts opts = options(RAM);
    struct {
        usw_opts known;
        uint64_t more;
    } newer = {options(RAM), 0};
    usw_stats stats = {.size = sizeof stats};
    usw_pool *pool;

    MUST(strcmp(usw_version(), USW_VERSION) == 0);
    MUST(strcmp(usw_error(), "nothing has gone wrong in this thread") == 0);
    MUST(usw_is_limited() == 0);
    MUST_SAY(usw_release() == -1, ESRCH, "budget");
    MUST_SAY(usw_get_stats(&stats) == -1, ESRCH, "budget");
    MUST_SAY(usw_pool_create(NULL) == NULL, EINVAL, "a pool needs a budget");
    MUST_SAY(usw_limit(NULL) == -1, EINVAL, "NULL");
    static char page[PAGE];
    MUST_SAY(usw_pin(page, PAGE) == -1, ESRCH, "budget");

    opts.size = 0;
    MUST_SAY(usw_limit(&opts) == -1, EINVAL, "sizeof");
    opts.size = offsetof(usw_opts, options);
    MUST_SAY(usw_pool_create(&opts) == NULL, EINVAL, "sizeof");
    newer.known.size = sizeof newer;
    newer.more = 1;
    MUST_SAY(usw_pool_create(&newer.known) == NULL, E2BIG, "newer");
    MUST_SAY(usw_limit(&newer.known) == -1, E2BIG, "newer");

    opts = options(0);
    MUST_SAY(usw_limit(&opts) == -1, EINVAL, "no RAM is named");
    opts = options(MIB);
    MUST_SAY(usw_pool_create(&opts) == NULL, EINVAL, "8M");
    MUST_SAY(usw_limit(&opts) == -1, EINVAL, "8M");
    opts = options(RAM);
    opts.dir = "/no/such/directory";
    MUST_SAY(usw_pool_create(&opts) == NULL, EINVAL, "/no/such/directory");
    opts = options(RAM);
    opts.command = "/no/such/program";
    MUST_SAY(usw_pool_create(&opts) == NULL, ENOENT, "/no/such/program");
    opts.command = "/bin/echo";
    MUST_SAY(usw_pool_create(&opts) == NULL, EIO, "/bin/echo");
    opts = options(RAM);
    const char *wrong_word[] = {"pool=30%", NULL}, *wrong_value[] = {"--pool=300%", NULL},
               *no_option[] = {"--no-such-option", NULL}, *right[] = {"--on-full=stop", "--pool=40%", NULL};
    opts.options = wrong_word;
    MUST_SAY(usw_pool_create(&opts) == NULL, EINVAL, "--name=value");
    opts.options = wrong_value;
    MUST_SAY(usw_pool_create(&opts) == NULL, EINVAL, "300%");
    opts.options = no_option;
    MUST_SAY(usw_limit(&opts) == -1, EINVAL, "--no-such-option");
    MUST(usw_is_limited() == 0);

    /* After all of this there is one, with a struct of a later version that asks for nothing new. */
    newer.more = 0;
    newer.known.options = right;
    pool = usw_pool_create(&newer.known);
    MUST(pool && usw_is_limited() == 1);
    opts = options(2 * RAM);
    MUST_SAY(usw_pool_create(&opts) == NULL, EALREADY, "has a budget already");
    MUST_SAY(usw_limit(&opts) == -1, EALREADY, "has a budget already");
    stats.size = 8;
    MUST_SAY(usw_get_stats(&stats) == -1, EINVAL, "sizeof");
    MUST_SAY(usw_get_stats(NULL) == -1, EINVAL, "NULL");
    stats.size = sizeof stats;
    MUST(usw_get_stats(&stats) == 0 && stats.ram_bytes == RAM);

    /* What was taken from it stays when the budget is given up. */
    char *block = usw_malloc(pool, 2 * RAM);
    MUST(block);
    fill(block, 2 * RAM, 1);
    MUST(usw_release() == 0 && usw_is_limited() == 0);
    MUST(present_pages(block, 2 * RAM) == 2 * RAM / PAGE);
    verify(block, 2 * RAM, 1);
    MUST_SAY(usw_malloc(pool, MIB) == NULL, ENOMEM, "had a budget before");
    MUST_SAY(usw_map(pool, MIB) == MAP_FAILED, EBUSY, "had a budget before");
    MUST_SAY(usw_limit(&opts) == -1, EBUSY, "had a budget before");
    MUST_SAY(usw_release() == -1, ESRCH, "budget");
    usw_free(pool, block);
    usw_pool_destroy(pool);
}

/* No command in PATH, and none is named. */
static void no_command(void) {
    usw_opts opts = options(RAM);
    MUST(unsetenv("USWAP_COMMAND") == 0 && setenv("PATH", "/no/such/directory", 1) == 0);
    MUST_SAY(usw_pool_create(&opts) == NULL, ENOENT, "USWAP_COMMAND");
}

/* A budget for all of the process: memory of libc's, too. */
static void limit(void) {
    usw_opts opts = options(RAM);
    size_t bytes = 3 * RAM;
    char *block = malloc(bytes);
    MUST(block);
    fill(block, RAM / 2, 1);
    MUST(usw_limit(&opts) == 0);
    MUST(usw_is_limited() == 1);
    MUST_SAY(usw_limit(&opts) == -1, EALREADY, "has a budget already");
    fill(block, bytes, 2);
    must_be_within_budget();
    verify(block, bytes, 2);
    /* A pool shares it. */
    MUST_SAY(usw_pool_create(&opts) == NULL, EALREADY, "has a budget already");
    usw_pool *pool = usw_pool_create(NULL);
    MUST(pool);
    char *table = usw_malloc(pool, RAM);
    MUST(table);
    fill(table, RAM, 3);
    must_be_within_budget();
    verify(block, bytes, 2);
    verify(table, RAM, 3);
    usw_free(pool, table);
    usw_pool_destroy(pool);
    free(block);
}

/* A child has the same memory, and its own. */
static void forked(void) {
    usw_pool *pool = new_pool();
    size_t bytes = 2 * RAM;
    char *block = usw_malloc(pool, bytes);
    MUST(block);
    fill(block, bytes, 1);
    fflush(stdout);
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        verify(block, bytes, 1);
        fill(block, bytes / 2, 2);
        char *own = usw_malloc(pool, RAM);
        MUST(own);
        fill(own, RAM, 3);
        verify(own, RAM, 3);
        verify(block, bytes / 2, 2);
        must_be_within_budget();
        usw_free(pool, own);
        usw_free(pool, block);
        _exit(0);
    }
    fill(block, bytes / 4, 4);
    int status = -1;
    MUST(waitpid(child, &status, 0) == child);
    MUST(status == 0);
    verify(block, bytes / 4, 4);
    for (size_t page = bytes / 4 / PAGE; page < bytes / PAGE; page++)
        MUST(((uint64_t *)block)[page * WORDS] == word_of(1, page, 0));
    usw_free(pool, block);
    usw_pool_destroy(pool);
}

/* In a run of others a pool shares their budget. */
static void in_a_run(void) {
    usw_opts opts = options(RAM);
    MUST_SAY(usw_pool_create(&opts) == NULL, EPERM, "inside of a run");
    MUST_SAY(usw_limit(&opts) == -1, EPERM, "inside of a run");
    opts = options(0);
    opts.dir = NULL;
    usw_pool *pool = usw_pool_create(&opts);
    MUST(pool);
    char *block = usw_malloc(pool, 3 * RAM);
    MUST(block);
    fill(block, 3 * RAM, 1);
    must_be_within_budget();
    verify(block, 3 * RAM, 1);
    usw_stats stats = {.size = sizeof stats};
    MUST(usw_get_stats(&stats) == 0 && stats.ram_bytes == RAM);
    MUST_SAY(usw_release() == -1, ESRCH, "budget");
    usw_free(pool, block);
    usw_pool_destroy(pool);
}

/* What a tool that looks for leaks must see. */
static void forgets(void) {
    volatile uintptr_t forgotten = (uintptr_t)new_pool();
    forgotten = 0;
    (void)forgotten;
}

static const struct {
    const char *name;
    void (*run)(void);
} modes[] = {
    {"array", array},   {"blocks", blocks},         {"threads", threads}, {"advice", advice}, {"pin", pin},
    {"errors", errors}, {"no_command", no_command}, {"limit", limit},     {"forked", forked}, {"tables", tables},
    {"forgets", forgets}, {"in_a_run", in_a_run},
};

int main(int word_count, char **words) {
    for (size_t index = 0; index < sizeof modes / sizeof modes[0]; index++) {
        if (word_count == 2 && strcmp(words[1], "list") == 0) printf("%s\n", modes[index].name);
        if (word_count == 2 && strcmp(words[1], modes[index].name) == 0) {
            modes[index].run();
            printf("OK\n");
            return 0;
        }
    }
    return word_count == 2 && strcmp(words[1], "list") == 0 ? 0 : 2;
}
