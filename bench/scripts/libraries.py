#!/usr/bin/env python3
"""Libraries of Python in less RAM than they want: under `uswap run`, after `uswap.limit`, and under the kernel's zram.

    sudo python3 bench/scripts/libraries.py [--uswap target/release/uswap] [--times 2 4] [--rounds 3]
        [--rivals zram-lz4,uswap] [NAME ...]

For each name, `uswap bench` runs the work alone and by each rival at the same true RAM, which is what it takes alone
divided by 2 and by 4; what it prints must be the same. The rival `limit` calls `uswap.limit` before the work, and wants
the package uswap in the Python that runs this. Without root there is no zram. A library that is missing is left out.

    sort     numpy: a sort of 40 million numbers
    matmul   numpy: products of two matrices of 3,000 x 3,000
    fft      numpy: a transform there and back of 8 million numbers
    fit      scikit-learn: gradient boosting of 150,000 rows, and k-means
    train    torch: four steps of a small network
    duckdb   duckdb: a join and groups of 4 million rows, in memory
    polars   polars: groups, a sort and a join of 4 million rows

`libraries.py --work NAME` is the work alone: it prints a sum, and stays within the RAM of `USWAP_LIMIT`, if that is
set.
"""

import argparse
import importlib.util
import os
import subprocess
import sys


def sort():
    import numpy as np

    numbers = np.random.default_rng(1).integers(0, 1 << 40, 40_000_000)
    numbers.sort()
    return int(numbers[::1000].sum())


def matmul():
    import numpy as np

    random = np.random.default_rng(2)
    # Small whole numbers: the sum is the same in whatever order it is made.
    first, second = (random.integers(0, 50, (3000, 3000)).astype("f8") for _ in range(2))
    third = first @ second
    return int((third @ first)[::7].sum())


def fft():
    import numpy as np

    numbers = np.random.default_rng(3).integers(0, 1000, 8_000_000).astype("f8")
    there = np.fft.rfft(numbers)
    back = np.rint(np.fft.irfft(there, len(numbers))).astype("i8")
    return int((back == numbers).sum()), int(numbers.sum())


def fit():
    import numpy as np
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.ensemble import HistGradientBoostingRegressor

    random = np.random.default_rng(4)
    data = random.normal(size=(150_000, 40))
    target = data[:, 0] * 2 + np.sin(data[:, 1]) + random.normal(size=len(data)) * 0.1
    trees = HistGradientBoostingRegressor(max_iter=8, random_state=1).fit(data, target)
    groups = MiniBatchKMeans(8, random_state=1, n_init=1).fit_predict(data)
    return round(float(trees.score(data, target)), 6), int(np.bincount(groups).max())


def train():
    import torch

    torch.manual_seed(5)
    torch.set_num_threads(1)
    network = torch.nn.Sequential(torch.nn.Linear(512, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 512))
    data = torch.randn(16_384, 512)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    for _ in range(4):
        optimizer.zero_grad()
        loss = ((network(data) - data) ** 2).mean()
        loss.backward()
        optimizer.step()
    return round(loss.item(), 4)


def duckdb():
    import duckdb as library

    database = library.connect(":memory:", config={"threads": 2})
    database.execute("CREATE TABLE t AS SELECT range AS a, hash(range) % 1000003 AS b, range % 97 AS c "
                     "FROM range(4000000)")
    return database.execute("SELECT count(*), sum(t.a * u.c) FROM t JOIN t u ON t.b = u.a").fetchall(), \
        database.execute("SELECT b, sum(a) s FROM t GROUP BY b ORDER BY s DESC, b LIMIT 3").fetchall()


def polars():
    import polars as library

    numbers = library.int_range(0, 4_000_000, eager=True)
    table = library.DataFrame({"a": numbers, "b": numbers.hash(1) % 1_000_003, "c": numbers % 97})
    groups = table.group_by("b").agg(library.col("a").sum()).sort("a", "b", descending=True)
    joined = table.join(groups, on="b", suffix="_sum").sort("a_sum", "a")
    return groups.row(0), joined.height, int(joined["a_sum"].tail(1000).sum())


WORKS = {"sort": (sort, "numpy"), "matmul": (matmul, "numpy"), "fft": (fft, "numpy"), "fit": (fit, "sklearn"),
         "train": (train, "torch"), "duckdb": (duckdb, "duckdb"), "polars": (polars, "polars")}


def work(name):
    limit = os.environ.get("USWAP_LIMIT")
    if limit:
        import uswap

        uswap.limit(int(limit))
    print(WORKS[name][0]())


def peak_bytes(command):
    """What the work has in RAM at most, alone."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"{command} ended with status {status}")
    return usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description="Libraries of Python in less RAM than they want.")
    parser.add_argument("--uswap", default="target/release/uswap")
    parser.add_argument("--times", type=float, nargs="+", default=[2, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rivals", default="zram-lz4,uswap", help="as of uswap bench")
    parser.add_argument("--out", default="uswap-libraries")
    parser.add_argument("--work", choices=WORKS, help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", choices=[[], *WORKS])
    options = parser.parse_args()
    if options.work:
        return work(options.work)
    uswap = os.path.abspath(options.uswap)
    os.environ.setdefault("USWAP_COMMAND", uswap)
    # A kind of arithmetic that goes by the number of processors alone.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")
    has_package = importlib.util.find_spec("uswap") is not None
    if not has_package:
        print("the package uswap is missing: the rival limit is left out")
    for name in options.names or WORKS:
        library = WORKS[name][1]
        if importlib.util.find_spec(library) is None:
            print(f"{name}: left out, there is no {library}")
            continue
        command = [sys.executable, os.path.abspath(__file__), "--work", name]
        peak = peak_bytes(command)
        for times in options.times:
            ram = int(peak / times)
            print(f"\n{name}: {peak >> 20} MiB alone, {ram >> 20} MiB here", flush=True)
            words = [uswap, "bench", "--ram", str(ram), "--rounds", str(options.rounds), "--rivals", options.rivals,
                     "--out", f"{options.out}/{name}-{times:g}"]
            if has_package:
                words += ["--rival", "limit=env USWAP_LIMIT={budget} {program}"]
            subprocess.run(words + ["--", *command], check=False)
    return None


if __name__ == "__main__":
    main()
