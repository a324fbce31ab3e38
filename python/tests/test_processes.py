"""What a process starts belongs to its run."""

from __future__ import annotations

from conftest import Python


def test_a_forked_child_shares_the_budget_and_cannot_give_it_up(python: Python) -> None:
    python(
        """
    import os, uswap

    uswap.limit("64M")
    content = bytearray(b"abcdefgh" * (16 << 20))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            assert uswap.is_limited()
            assert uswap.stats().ram_bytes == 64 << 20
            try:
                uswap.release()
            except uswap.NotLimitedError:
                pass
            else:
                raise AssertionError("it was released")
            try:
                uswap.limit("64M")
            except uswap.AlreadyLimitedError:
                pass
            else:
                raise AssertionError("it was limited twice")
            assert content == b"abcdefgh" * (16 << 20)
            content[:4] = b"ABCD"
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert content == b"abcdefgh" * (16 << 20)
    uswap.release()
    assert content == b"abcdefgh" * (16 << 20)
    """
    )


def test_a_child_lives_on_when_its_parent_gives_the_budget_up(python: Python) -> None:
    python(
        """
    import os, time, uswap

    uswap.limit("32M")
    content = bytearray(b"abcdefgh" * (12 << 20))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reader, 1)
        same = content == b"abcdefgh" * (12 << 20)
        _, resident, shared, *_ = map(int, open("/proc/self/statm").read().split())
        os._exit(0 if same and (resident - shared) * 4096 <= 32 << 20 else 1)
    uswap.release()
    os.write(writer, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert content == b"abcdefgh" * (12 << 20)
    """
    )


def test_programs_belong_to_the_run_whatever_their_environment(python: Python) -> None:
    python(
        """
    import os, subprocess, sys, uswap

    uswap.limit("64M")
    program = '''
    import uswap
    content = bytearray(b"abcdefgh" * (20 << 20))
    _, resident, shared, *_ = map(int, open("/proc/self/statm").read().split())
    assert (resident - shared) * 4096 <= 64 << 20, resident
    assert content == b"abcdefgh" * (20 << 20)
    try:
        uswap.limit("64M")
    except uswap.AlreadyLimitedError as error:
        print(error)
    '''
    import textwrap
    for environment in (None, dict(os.environ), {}):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert "inside of a run" in done.stdout, done.stdout
    """
    )


def test_multiprocessing_works_by_fork_and_spawn(python: Python) -> None:
    python(
        """
    import multiprocessing, os
    import uswap

    def work(number):
        content = bytearray(bytes([number]) * (48 << 20))
        _, resident, shared, *_ = map(int, open("/proc/self/statm").read().split())
        assert (resident - shared) * 4096 <= 64 << 20, resident
        assert content.count(number) == 48 << 20
        return os.getpid(), sum(content[:: 1 << 20])

    if __name__ == "__main__":
        uswap.limit("64M")
        for method in ("fork", "spawn", "forkserver"):
            with multiprocessing.get_context(method).Pool(2) as pool:
                answers = pool.map(work, range(1, 5))
            assert [answer for _, answer in answers] == [48 * number for number in range(1, 5)]
            assert os.getpid() not in {pid for pid, _ in answers}
        assert uswap.stats().counters
    """
    )
