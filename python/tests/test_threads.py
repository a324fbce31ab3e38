"""Other threads go on as if nothing had happened."""

from __future__ import annotations

from conftest import Python


def test_no_sleeping_thread_gets_eintr(python: Python) -> None:
    python(
        """
    import ctypes, os, signal, threading, time, uswap

    # A handler without SA_RESTART: what a signal ends, ends with EINTR.
    for number in (signal.SIGUSR1, signal.SIGALRM, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
        signal.siginterrupt(number, True)
    libc = ctypes.CDLL(None, use_errno=True)
    SECONDS = 5.0
    reader, writer = os.pipe()
    sleeps = [
        lambda: libc.usleep(int(SECONDS * 1e6)),
        lambda: libc.poll(None, 0, int(SECONDS * 1e3)),
        lambda: libc.epoll_wait(os.dup(epoll), events, 1, int(SECONDS * 1e3)),
        lambda: libc.read(reader, buffer, 1) - 1,
    ]
    epoll = libc.epoll_create1(0)
    events, buffer = ctypes.create_string_buffer(64), ctypes.create_string_buffer(1)
    wrong = []

    def sleep(way):
        begin = time.monotonic()
        answer = way()
        took = time.monotonic() - begin
        if answer != 0 or took < SECONDS * 0.9:
            wrong.append((sleeps.index(way), answer, ctypes.get_errno(), took))

    threads = [threading.Thread(target=sleep, args=(way,)) for way in sleeps for _ in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    uswap.limit("64M")
    assert all(thread.is_alive() for thread in threads)
    time.sleep(SECONDS)
    os.write(writer, b"x" * 8)
    for thread in threads:
        thread.join()
    assert not wrong, wrong
    """
    )


def test_threads_that_work_lose_nothing(python: Python) -> None:
    python(
        """
    import threading, time, uswap

    stop, wrong = threading.Event(), []

    def work(seed):
        kept = {}
        number = 0
        while not stop.is_set():
            kept[number % 4000] = bytes([(seed + number) % 256]) * 4096
            number += 1
            old = (number * 7919) % 4000
            if old in kept and kept[old].count(kept[old][0]) != 4096:
                wrong.append((seed, old))
        last = {n % 4000: n for n in range(max(0, number - 4000), number)}
        wrong.extend((seed, place) for place, n in last.items() if kept[place][0] != (seed + n) % 256)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    uswap.limit("48M")
    time.sleep(2)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong, wrong
    """
    )


def test_threads_may_fork_and_ask_while_memory_comes_home(python: Python) -> None:
    python(
        """
    import os, threading, uswap

    uswap.limit("32M")
    content = bytearray(os.urandom(1 << 20) * 96)
    stop, codes = threading.Event(), []

    def fork():
        while not stop.is_set():
            child = os.fork()
            if child == 0:
                uswap.is_limited()
                os._exit(7)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    threads = [threading.Thread(target=fork) for _ in range(2)]
    for thread in threads:
        thread.start()
    while len(codes) < 4:
        uswap.stats()
    uswap.release()
    stop.set()
    for thread in threads:
        thread.join()
    assert set(codes) == {7}, codes
    assert content[: 1 << 20] * 96 == content
    """
    )
