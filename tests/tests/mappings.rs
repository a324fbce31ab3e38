//! Mappings that lie next to each other, in programs that serve their own faults.

use uswap_tests::{MIB, Run, Scratch, compile, needs, report, turn, uswap_binary};

const RAM_MIB: u64 = 24;

/// 48 MiB in mappings of five pages each: neighbours have other rights, or are left out of core files, so that the
/// kernel does not join them. It is gone through in order, so that pages are brought along.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 12288, PART = 5 };

int main(int count, char **words) {
    char *block = mmap(0, PAGES * (long)PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return 3;
    for (long page = 0; page < PAGES; page += 2 * PART)
        if (madvise(block + page * PAGE, PART * PAGE, MADV_DONTDUMP)) return 4;
    int is_written = count > 1;
    unsigned long wrong = 0;
    for (long page = 0; is_written && page < PAGES; page++) memset(block + page * PAGE, page % 251, PAGE);
    for (int round = 0; round < 3; round++)
        for (long page = 0; page < PAGES; page++)
            wrong += block[page * PAGE + round] != (char)(is_written ? page % 251 : 0);
    printf("%s: %lu wrong\n", is_written ? words[1] : "fresh", wrong);
    return 0;
}
"#;

#[test]
fn mappings_are_gone_through_with_one_fault_for_several_of_them() {
    let _turn = turn();
    if !needs(&["gcc"]) {
        return;
    }
    let Some(binary) = uswap_binary() else { return };
    let scratch = Scratch::new();
    let program = compile(&scratch, PROGRAM);
    let ram = format!("{RAM_MIB}M");
    for word in [None, Some("written")] {
        let run = Run::plain(&binary).args(["run", "--ram", &ram, "--"]).arg(&program);
        let outcome = run.args(word).timeout(std::time::Duration::from_secs(120)).finish();
        outcome.must_succeed();
        assert_eq!(outcome.stdout, format!("{}: 0 wrong\n", word.unwrap_or("fresh")));
    }
}

/// One thread moves a part of it to and fro, to fixed places; the others write all the rest, again and again.
const MOVES: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

enum { PAGE = 4096, THREADS = 3, PAGES = 8192, MOVED = 2560, WORDS = MOVED * PAGE / 4, SECONDS = 6 };

static char *blocks[THREADS], *places[2];
static unsigned long wrong, moves;
static volatile int ends;

/// Words that do not compress: they come back from the file, one read after the other.
static unsigned noise(unsigned long word) {
    return (unsigned)word * 2654435761u ^ (unsigned)(word * 0x9e3779b97f4a7c15ul >> 40);
}

static char *map(long pages, int protection) {
    return mmap(0, pages * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static void *write_all(void *word) {
    char *block = blocks[(long)word];
    for (unsigned round = 1; !ends; round++)
        for (long page = 0; page < PAGES && !ends; page++) {
            long at = page * PAGE + 64;
            unsigned seen;
            memcpy(&seen, block + at, sizeof seen);
            if (seen && seen + 1 != round) __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
            for (int part = 0; part < PAGE - 128; part += 64) memcpy(block + at + part, &round, sizeof round);
        }
    return 0;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int place = 0; place < 2; place++) places[place] = map(MOVED, place ? PROT_NONE : PROT_READ | PROT_WRITE);
    for (long word = 0; word < WORDS; word++) ((unsigned *)places[0])[word] = noise(word);
    for (long thread = 0; thread < THREADS; thread++) {
        blocks[thread] = map(PAGES, PROT_READ | PROT_WRITE);
        pthread_create(&threads[thread], 0, write_all, (void *)thread);
    }
    for (time_t end = time(0) + SECONDS; time(0) < end; moves++) {
        char *from = places[moves % 2], *to = places[(moves + 1) % 2];
        if (mremap(from, MOVED * PAGE, MOVED * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to) return 3;
        for (long word = 0; word < WORDS; word += 10007) wrong += ((unsigned *)to)[word] != noise(word);
        madvise(to, MOVED * PAGE, MADV_PAGEOUT);
        nanosleep(&(struct timespec){0, 100000000}, 0);
    }
    ends = 1;
    for (long thread = 0; thread < THREADS; thread++) pthread_join(threads[thread], 0);
    fprintf(stderr, "moved %lu times\n", moves);
    printf("%lu wrong, moved: %d\n", wrong, moves > 5);
    return 0;
}
"#;

#[test]
fn a_range_that_is_moved_is_brought_within_the_budget() {
    let _turn = turn();
    if !needs(&["gcc"]) || uswap_binary().is_none() {
        return;
    }
    let scratch = Scratch::new();
    let run = Run::plain(compile(&scratch, MOVES)).timeout(std::time::Duration::from_secs(240));
    let outcome = run.uswap(RAM_MIB, &["--swap", "/var/tmp:1G"]).finish();
    outcome.must_succeed();
    assert_eq!(outcome.stdout, "0 wrong, moved: 1\n");
    let (peak, over) = (outcome.samples.peak_bytes, outcome.samples.over);
    report(&format!(
        "peak {} MiB of {RAM_MIB}; {over} of {} samples over",
        peak >> 20,
        outcome.samples.count
    ));
    assert!(peak < RAM_MIB * MIB * 5 / 4, "{} MiB", peak >> 20);
}

/// Processes that want far more than the budget to be there at once, by both ways.
const POPULATES: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { PAGE = 4096, BYTES = 96 << 20, PROCESSES = 3, ROUNDS = 3 };

static int fill(int number) {
    for (int round = 0; round < ROUNDS; round++) {
        int by_advice = (number + round) % 2;
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | (by_advice ? 0 : MAP_POPULATE);
        char *block = mmap(0, BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (block == MAP_FAILED) return 3;
        if (by_advice) madvise(block, BYTES, MADV_POPULATE_WRITE);
        for (long at = 0; at < BYTES; at += PAGE) if (block[at]) return 4;
        for (long at = 0; at < BYTES; at += PAGE) block[at] = at / PAGE % 251 + number;
        for (long at = 0; at < BYTES; at += PAGE) if (block[at] != (char)(at / PAGE % 251 + number)) return 5;
        munmap(block, BYTES);
    }
    return 0;
}

int main(void) {
    for (int number = 1; number <= PROCESSES; number++) if (!fork()) _exit(fill(number));
    int status, bad = 0;
    while (wait(&status) > 0) bad += status != 0;
    printf("%d bad\n", bad);
    return bad;
}
"#;

#[test]
fn memory_that_is_to_be_there_at_once_comes_within_the_budget() {
    let _turn = turn();
    if !needs(&["gcc"]) || uswap_binary().is_none() {
        return;
    }
    let scratch = Scratch::new();
    let run = Run::plain(compile(&scratch, POPULATES)).timeout(std::time::Duration::from_secs(240));
    let outcome = run.uswap(2 * RAM_MIB, &["--swap", "/var/tmp:1G"]).finish();
    outcome.must_succeed();
    assert_eq!(outcome.stdout, "0 bad\n");
    let (peak, over) = (outcome.samples.peak_bytes, outcome.samples.over);
    report(&format!("peak {} MiB of {}; {over} samples over", peak >> 20, 2 * RAM_MIB));
    // All of them together want six times as much, and read it before they write it.
    assert!(peak < 2 * RAM_MIB * MIB / 100 * 105, "{} MiB", peak >> 20);
}

/// Calls that name memory which the program may not touch: each is answered as the kernel answers it, whether the
/// memory was ever there or is evicted.
const WITHOUT_RIGHTS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 15360, ROOM = 256 };

static char *map(long pages, int rights) {
    return mmap(0, pages * PAGE, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int main(void) {
    char *written = map(ROOM, PROT_READ | PROT_WRITE), *fresh = map(ROOM, PROT_READ | PROT_WRITE);
    for (long page = 0; page < ROOM; page++) written[page * PAGE] = page;
    char *block = map(PAGES, PROT_READ | PROT_WRITE);
    for (int round = 0; round < 3; round++)
        for (long word = 0; word < PAGES * (PAGE / 8L); word += 3) ((long *)block)[word] += word * 0x9E3779B97F4A7C15;
    mprotect(written, ROOM * PAGE, PROT_NONE);
    mprotect(fresh, ROOM * PAGE, PROT_NONE);
    char *never = map(ROOM, PROT_NONE), *places[] = {written, fresh, never};
    int ends[2], faults = 0, others = 0;
    if (pipe(ends)) return 3;
    for (int place = 0; place < 3; place++)
        for (long page = 0; page < ROOM; page += 8) {
            faults += write(ends[1], places[place] + page * PAGE, 100) == -1 && errno == EFAULT;
            others += write(ends[1], "x", 1) == 1 && read(ends[0], places[place] + page * PAGE, 100) == -1;
            faults += errno == EFAULT;
            char x;
            others += read(ends[0], &x, 1) == 1;
        }
    mprotect(written, ROOM * PAGE, PROT_READ | PROT_WRITE);
    mprotect(fresh, ROOM * PAGE, PROT_READ | PROT_WRITE);
    long wrong = 0;
    for (long page = 0; page < ROOM; page++) wrong += written[page * PAGE] != (char)page || fresh[page * PAGE];
    for (long page = 0; page < ROOM; page++) fresh[page * PAGE] = page;
    for (long page = 0; page < ROOM; page++) wrong += fresh[page * PAGE] != (char)page;
    printf("%d faults, %d others, %ld wrong\n", faults, others, wrong);
    return 0;
}
"#;

#[test]
fn calls_of_memory_without_rights_answer_as_ever() {
    let _turn = turn();
    if !needs(&["gcc"]) || uswap_binary().is_none() {
        return;
    }
    let scratch = Scratch::new();
    let program = compile(&scratch, WITHOUT_RIGHTS);
    let alone = Run::plain(&program).finish();
    let evicted = Run::plain(&program).uswap(RAM_MIB, &["--swap", "/var/tmp:1G"]).finish();
    evicted.must_succeed();
    assert_eq!(alone.stdout, "192 faults, 192 others, 0 wrong\n");
    assert_eq!(evicted.stdout, alone.stdout);
}

/// A segment of System V takes the place of evicted memory: calls must find the segment, and when it has gone, what is
/// mapped there next.
const SEGMENT: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 12288, AT = 1000, SHARED = 500 };

static char *block;
static char copy[PAGE];

/// Pages in front of it or behind it that are not as they were written.
static int wrong_around(void) {
    int wrong = 0;
    for (long page = 0; page < PAGES; page++)
        if (page < AT || page >= AT + SHARED) wrong += block[page * PAGE + page % PAGE] != (char)(page % 251);
    return wrong;
}

/// Pages there that a call does not find to be all `content`.
static int wrong_there(int file, char content) {
    int wrong = 0;
    for (long page = AT; page < AT + SHARED; page++) {
        if (pwrite(file, block + page * PAGE, PAGE, 0) != PAGE) return -1;
        if (pread(file, copy, PAGE, 0) != PAGE) return -2;
        for (int at = 0; at < PAGE; at++)
            if (copy[at] != content) { wrong++; break; }
    }
    return wrong;
}

int main(void) {
    int file = fileno(tmpfile()), segment = shmget(IPC_PRIVATE, SHARED * PAGE - 100, 0600);
    block = mmap(0, PAGES * (long)PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (long page = 0; page < PAGES; page++) memset(block + page * PAGE, page % 251, PAGE);
    madvise(block, PAGES * (long)PAGE, 21 /* MADV_PAGEOUT */);
    char *there = block + AT * PAGE;
    if (shmat(segment, there, SHM_REMAP) != there) return perror("shmat"), 3;
    shmctl(segment, IPC_RMID, 0);
    printf("%d ", wrong_there(file, 0));
    memset(there, 7, SHARED * PAGE);
    printf("%d ", wrong_there(file, 7));
    shmdt(there);
    if (mmap(there, SHARED * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0)
        != there) return perror("mmap"), 4;
    printf("%d ", wrong_there(file, 0));
    memset(there, 9, SHARED * PAGE);
    madvise(block, PAGES * (long)PAGE, 21);
    printf("%d %d\n", wrong_there(file, 9), wrong_around());
    return 0;
}
"#;

#[test]
fn a_segment_that_replaces_evicted_memory_is_what_calls_find() {
    let _turn = turn();
    if !needs(&["gcc"]) || uswap_binary().is_none() {
        return;
    }
    let scratch = Scratch::new();
    let run = Run::plain(compile(&scratch, SEGMENT)).timeout(std::time::Duration::from_secs(60));
    let outcome = run.uswap(RAM_MIB, &[]).finish();
    outcome.must_succeed();
    assert_eq!(outcome.stdout, "0 0 0 0 0\n", "{}", outcome.stderr);
}

/// Two buffers that nobody has touched are filled by one call each. Memory becomes short while the second one is under
/// way, so that it is managed from then on.
const LONG_CALLS: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PARTS = 16 };

static long bytes;
static int ends[2];

static unsigned long content(long word) { return word * 0x9e3779b97f4a7c15ul; }

static void *send_all(void *from) {
    for (int buffer = 0; buffer < 2; buffer++)
        for (long done = 0, part; done < bytes; done += part)
            if ((part = send(ends[0], (char *)from + done, bytes - done, 0)) <= 0) exit(9);
    return 0;
}

static long fill(const char *way, int file, char *buffer) {
    if (!strcmp(way, "recv")) return recv(ends[1], buffer, bytes, MSG_WAITALL);
    if (strcmp(way, "readv")) return pread(file, buffer, bytes, 0);
    struct iovec vectors[PARTS];
    for (int part = 0; part < PARTS; part++)
        vectors[part] = (struct iovec){buffer + bytes / PARTS * part, bytes / PARTS};
    return preadv(file, vectors, PARTS, 0);
}

int main(int count, char **words) {
    const char *way = words[1], *name = words[2];
    bytes = atol(words[3]);
    int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (ftruncate(file, bytes)) return 3;
    unsigned long *there = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    for (long word = 0; word < bytes / 8; word++) there[word] = content(word);
    if (!strcmp(way, "direct")) {
        fsync(file);
        int direct = open(name, O_RDONLY | O_DIRECT);
        if (direct >= 0) file = direct;
    }
    pthread_t thread;
    if (!strcmp(way, "recv")) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 4;
        pthread_create(&thread, 0, send_all, there);
    }
    char *buffers[2];
    for (int buffer = 0; buffer < 2; buffer++)
        buffers[buffer] = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int buffer = 0; buffer < 2; buffer++) {
        long done = fill(way, file, buffers[buffer]);
        if (done != bytes) printf("buffer %d: %ld of %ld\n", buffer, done, bytes);
    }
    long wrong = 0;
    for (int buffer = 0; buffer < 2; buffer++)
        for (long word = 0; word < bytes / 8; word++)
            wrong += ((unsigned long *)buffers[buffer])[word] != content(word);
    printf("%ld wrong\n", wrong);
    return 0;
}
"#;

#[test]
fn a_long_call_is_whole_though_memory_is_managed_meanwhile() {
    const SHORT_RAM_MIB: u64 = 256;
    let _turn = turn();
    if !needs(&["gcc"]) || uswap_binary().is_none() {
        return;
    }
    let scratch = Scratch::new();
    let program = compile(&scratch, LONG_CALLS);
    for mib in [125, 136, 150] {
        for way in ["pread", "readv", "direct", "recv"] {
            let run = Run::plain(&program).arg(way).arg(scratch.file("content")).arg((mib * MIB).to_string());
            let run = run.timeout(std::time::Duration::from_secs(60));
            let outcome = run.uswap(SHORT_RAM_MIB, &["--swap", "/var/tmp:1G"]).finish();
            outcome.must_succeed();
            assert_eq!(outcome.stdout, "0 wrong\n", "{way} of {mib} MiB: {}", outcome.stderr);
        }
    }
}
