"""A pandas table of orders: sorted by customer, time and order, then grouped by customer and by shop.

dataframe.py BYTES SEED: BYTES is the memory at its highest. Prints one line of JSON; the checksum is that of the
sorted table and of the groups.
"""

import hashlib
import json
import sys
import time

import numpy
import pandas


def table(rows, seed):
    random = numpy.random.Generator(numpy.random.PCG64(seed))
    return pandas.DataFrame(
        {
            "order": random.permutation(rows),
            "customer": random.integers(0, max(rows // 20, 1), rows),
            "time": 1_760_000_000 + random.integers(0, 30_000_000, rows),
            "shop": random.integers(0, 300, rows).astype(numpy.int32),
            "count": random.integers(1, 9, rows).astype(numpy.int32),
            "price": numpy.round(random.gamma(2.0, 20.0, rows), 2),
            "weight": numpy.round(random.normal(5.0, 1.0, rows), 1),
        }
    )


def digest_of(frame, digest):
    for name in frame.columns:
        digest.update(numpy.ascontiguousarray(frame[name].to_numpy()))


def main():
    memory_bytes, seed = int(sys.argv[1]), int(sys.argv[2])
    # Python with pandas, and each row twice while it is sorted.
    rows = (memory_bytes - 41_000_000) // 218
    digest = hashlib.sha256()

    started = time.monotonic()
    frame = table(rows, seed)
    filled = time.monotonic()
    frame = frame.sort_values(["customer", "time", "order"], kind="stable")
    sorted_at = time.monotonic()
    by_customer = frame.groupby("customer").agg({"price": "sum", "count": "sum", "time": "max", "weight": "mean"})
    by_shop = frame.groupby("shop").agg({"price": ["mean", "max"], "order": "count"})
    grouped = time.monotonic()

    digest_of(frame, digest)
    digest_of(by_customer, digest)
    digest_of(by_shop, digest)
    figures = {"fill_s": filled - started, "sort_s": sorted_at - filled, "groupby_s": grouped - sorted_at}
    print(json.dumps({"figures": figures, "checksum": digest.hexdigest()}))


main()
