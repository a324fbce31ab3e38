/*
 * usw.h: memory that may be larger than RAM, and a budget of RAM for the process that asks for it.
 *
 *     usw_opts opts = {.size = sizeof opts, .ram = 2ULL << 30, .dir = "/scratch"};
 *     usw_pool *pool = usw_pool_create(&opts);
 *     if (!pool) { fprintf(stderr, "%s\n", usw_error()); return 1; }
 *     double *table = usw_malloc(pool, count * sizeof *table);      (as large as the swap file has room for)
 *     ...
 *     usw_free(pool, table);
 *     usw_pool_destroy(pool);
 *
 * Cold pages are compressed in RAM, and the coldest are written, compressed and encrypted, to a swap file. No privilege
 * is needed, and no kernel swap. There are two ways, and a process goes one of them, once:
 *
 *   - a pool (usw_pool_create): only memory that is taken from it is managed; the rest of the process stays as it is;
 *   - a budget (usw_limit): all memory of the process that is mapped privately and is not of a file is managed.
 *
 * What is needed: Linux 5.11 or newer on x86-64, userfaultfd for programs, and the command `uswap` with its agent: in
 * PATH, where the variable USWAP_COMMAND says, or where usw_opts.command says. `uswap doctor` says what is missing.
 *
 * Link with -lusw, or with what `pkg-config --cflags --libs usw` says.
 *
 * Errors. A function that fails says so by its value, sets errno, and leaves a sentence for usw_error(). One that
 * succeeds leaves both as they are, or sets errno to anything, as functions of libc do. A call that fails leaves the
 * process as it was.
 *
 *   E2BIG      a struct is of a newer header than this library, and asks for what it does not know
 *   EALREADY   the process has a budget, or a pool with other options
 *   EBUSY      it had one and has given it up, and a process can get one only once: start it again
 *   EINVAL     an argument is wrong; a pool without a budget; or `uswap` has refused what was asked for
 *   EIO        the command answers in no way that is known: it is of another version; or the run does not answer
 *   ELIBACC    the agent of uswap cannot be loaded
 *   ENOENT     there is no command `uswap`
 *   ENOMEM     no memory, no address space, or no room for it in the tables of the run (some 128 GiB); or too much is
 *              pinned
 *   ENOTSUP    the process cannot be kept within a budget: it is traced, a filter of system calls forbids it, ...
 *   EPERM      it was started inside of a run, by `uswap run` or by a process with a budget, and shares that
 *   ESRCH      it has no budget and no pool
 *   others     as the kernel says them of starting a command (EACCES, ...), or of munmap and madvise
 *
 * Threads. Every function may be called by any thread at any time, but not in a handler of a signal. The first
 * usw_pool_create and usw_limit stop all threads for some milliseconds.
 *
 * Fork. A child belongs to the run: its memory counts towards the budget, and is managed as its parent's. If its parent
 * had several threads it calls no function of this library before it executes a program, as POSIX says of all that is
 * not async-signal-safe.
 *
 * Panics. No exception passes through these functions. An error of the library itself ends the process with a message.
 *
 * Licence: MIT OR Apache-2.0.
 */
#ifndef USW_H
#define USW_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header. */
#define USW_VERSION "0.1.0"

/*
 * What a budget is to be. Set everything that you do not use to 0, as an initialiser with names does.
 *
 * It may get more members at its end. So `size` says which it has: one that is smaller than that of the first version,
 * or 0, is EINVAL. A larger one than the library knows is fine as long as what it does not know is 0, or else E2BIG.
 * All strings are the caller's, and are needed during the call only.
 */
typedef struct usw_opts {
    /* sizeof(usw_opts). */
    size_t size;
    /*
     * RAM in bytes, for the process, its children and uswap together; at least 8 MiB, and no more than the machine has.
     * 0, in a pool: the budget that the process has.
     */
    uint64_t ram;
    /*
     * Directory of the swap file, and what may follow: "DIR[:SIZE[:PRIORITY]]", as `uswap run --swap` takes it. NULL:
     * "/var/tmp". It must not be in RAM (tmpfs).
     */
    const char *dir;
    /* Path of the command `uswap`. NULL: where USWAP_COMMAND says, or else the first in PATH. */
    const char *command;
    /*
     * More options of `uswap run` that limit memory, each in one word: "--pool=30%", "--on-full=stop", "--allow-tmpfs",
     * "--swap=DIR" for one more swap file. A NULL ends the array. NULL: none.
     */
    const char *const *options;
} usw_opts;

/*
 * How the run goes, all sizes in bytes, those of all its processes together. Set `size` before the call. It may get
 * more members at its end: what the library does not know is set to 0.
 */
typedef struct usw_stats {
    /* sizeof(usw_stats). */
    size_t size;
    /* The budget. */
    uint64_t ram_bytes;
    /* What counts towards it: memory of the processes, the compressed pages, and uswap's own. */
    uint64_t used_bytes;
    /* Memory of managed processes that is in RAM. */
    uint64_t resident_bytes;
    /* Compressed pages in RAM. */
    uint64_t pool_bytes;
    /* What these may take now. */
    uint64_t pool_bytes_max;
    /* What the swap files hold. */
    uint64_t swap_file_bytes;
} usw_stats;

/* What is known of the use of memory: see usw_advise. */
typedef enum usw_advice {
    /* It is not used soon: it goes before others when memory gets short (MADV_COLD). */
    USW_COLD = 1,
    /* It is not used soon: it goes now (MADV_PAGEOUT). */
    USW_PAGEOUT = 2,
    /* It is used soon: it is brought, as far as nothing else has to go for it (MADV_WILLNEED). */
    USW_WILLNEED = 3,
    /* Its content is not needed any more, and becomes zeros (MADV_DONTNEED). The memory can be used as before. */
    USW_DEAD = 4
} usw_advice;

/* Memory that may be larger than RAM. */
typedef struct usw_pool usw_pool;

/*
 * A pool. A process has one budget: the first pool sets it. Those that come later, and those of a process with a budget
 * (usw_limit, or started by `uswap run`), share it: they are told the same options as the first pool, or none (`opts`
 * is NULL, or only its size is set).
 *
 * NULL and errno on failure. The caller gives the pool back with usw_pool_destroy.
 */
usw_pool *usw_pool_create(const usw_opts *opts);

/*
 * Gives the handle back. Memory that was taken from the pool lives on, within the same budget, until usw_free or
 * usw_unmap gives it back; these need no pool. NULL is fine, and nothing happens.
 */
void usw_pool_destroy(usw_pool *pool);

/*
 * As malloc: `bytes` bytes, aligned to 16. Blocks of 256 KiB and more are managed mappings of their own: they start at
 * a page (4096 bytes), are zeros first, and take nothing before they are touched. Smaller ones are libc's, which are
 * not managed and count towards the budget. 0 is as 1.
 *
 * NULL and errno on failure: ENOMEM, whatever the reason is (usw_error says it), or EINVAL if the pool is NULL. Give it
 * back with usw_free, never with free.
 */
void *usw_malloc(usw_pool *pool, size_t bytes);

/* As usw_malloc, `count` elements of `bytes` bytes, all zero. Too many for a size_t: ENOMEM. */
void *usw_calloc(usw_pool *pool, size_t count, size_t bytes);

/*
 * As realloc: the block at another size, with its content up to the smaller of both; it may have moved. NULL as the
 * block: as usw_malloc. 0 bytes is as 1: nothing is given back. Large blocks move without being copied (mremap), and
 * what is evicted of them stays so. While one grows, the run has tables for it twice.
 *
 * NULL and errno on failure, as of usw_malloc; then the old block is as it was.
 */
void *usw_realloc(usw_pool *pool, void *block, size_t bytes);

/*
 * Gives back a block of usw_malloc, usw_calloc or usw_realloc. The pool does not matter and may be NULL, or destroyed.
 * A NULL block is fine, and nothing happens. errno stays as it is.
 */
void usw_free(usw_pool *pool, void *block);

/*
 * What a block has room for, in bytes: at least what was asked for. Large blocks: whole pages, all of which may be
 * used. 0 of NULL.
 */
size_t usw_usable_size(usw_pool *pool, void *block);

/*
 * A managed mapping of `bytes` zero bytes, at a page. Nothing is taken for it before it is touched.
 *
 * MAP_FAILED (of <sys/mman.h>) and errno on failure. Give it back with usw_unmap, or munmap, which is the same. The
 * calls of <sys/mman.h> work on it: mremap, mprotect, madvise.
 */
void *usw_map(usw_pool *pool, size_t bytes);

/*
 * Gives back a mapping of usw_map, or whole pages of one. Not for blocks of usw_malloc.
 *
 * 0; -1 and errno on failure: EINVAL if it does not start at a page, or has no bytes.
 */
int usw_unmap(void *start, size_t bytes);

/*
 * Tells what is known of the use of `bytes` bytes at `start`, in a mapping or a block, or, in a process with a budget,
 * in any memory. `advice` is of usw_advice. The range need not be whole pages: advice is about the pages that lie in it
 * as a whole, but USW_WILLNEED about all that it touches.
 *
 * 0; -1 and errno on failure: EINVAL if there is no such advice, ENOMEM if a part of the range is not mapped, or what
 * else madvise says.
 */
int usw_advise(void *start, size_t bytes, int advice);

/*
 * Brings a range, and all pages that it touches, into RAM, where they stay: a device or another process may use them.
 * Some 250 ranges can be pinned. It is not counted how often a page is.
 *
 * 0; -1 and errno on failure.
 */
int usw_pin(void *start, size_t bytes);

/*
 * The pages that lie in a range as a whole may be evicted again: what shares a page with others may be theirs. So pin
 * and unpin whole pages, such as usw_usable_size bytes of a large block.
 *
 * 0; -1 and errno on failure.
 */
int usw_unpin(void *start, size_t bytes);

/*
 * Keeps the process and its children within `opts->ram` from now on, whatever allocates. It may be called at any time,
 * also when many threads run and much memory is in use.
 *
 * 0; -1 and errno on failure.
 */
int usw_limit(const usw_opts *opts);

/*
 * Gives the budget up, of usw_limit or of a pool: all memory of the process comes back into RAM, and stays there. What
 * was taken from a pool is the process's as before, but nothing more can be taken.
 *
 * 0; -1 and errno on failure: ESRCH if this process has not asked for one.
 */
int usw_release(void);

/* Whether the process has a budget, or a pool with one, that it asked for itself or its parent did: 1 or 0. */
int usw_is_limited(void);

/*
 * How the run goes of which the process is. Asks its supervisor, and waits for the answer, up to 5 s.
 *
 * 0; -1 and errno on failure: ESRCH without a budget, EIO if the run does not answer.
 */
int usw_get_stats(usw_stats *stats);

/*
 * What went wrong last in the calling thread, as a sentence in English that says what to try. Never NULL: if nothing
 * has gone wrong, it says that. It is the library's, and valid until the next function fails in this thread, or the
 * thread ends.
 */
const char *usw_error(void);

/* The version of the library, such as "0.1.0". */
const char *usw_version(void);

#ifdef __cplusplus
}
#endif

#endif
