"""Python objects: records of dicts, lists and strings are built, visited in mixed order, and sorted.

objects.py BYTES SEED: BYTES is the memory at its highest. Prints one line of JSON; the checksum is that of what
was visited and of the sorted order.
"""

import hashlib
import json
import random
import sys
import time

NAMES = (
    "amber basket candle dragon engine forest guitar harbor island jungle kitchen ladder marble needle orange pepper"
).split()


def record(number, draw):
    """One record, about 1180 bytes in several objects."""
    return {
        "id": number,
        "key": draw.getrandbits(60),
        "name": "%s %s %d" % (NAMES[number % 16], NAMES[draw.randrange(16)], number),
        "tags": ["%s-%d" % (NAMES[draw.randrange(16)], draw.randrange(1000)) for _ in range(4)],
        "prices": [draw.randrange(100_000) / 100 for _ in range(4)],
        "note": "seen %d times, last at %x: %s"
        % (
            draw.randrange(100),
            draw.getrandbits(64),
            " ".join(NAMES[draw.randrange(16)] for _ in range(12)),
        ),
    }


def main():
    memory_bytes, seed = int(sys.argv[1]), int(sys.argv[2])
    draw = random.Random(seed)
    count = (memory_bytes - 9_000_000) // 1180
    digest = hashlib.sha256()

    started = time.monotonic()
    records = [record(number, draw) for number in range(count)]
    built = time.monotonic()
    total = 0
    for _ in range(count):
        one = records[draw.randrange(count)]
        one["id"] += 1
        total += len(one["note"]) + len(one["tags"][one["id"] % 4]) + int(one["prices"][0])
    visited = time.monotonic()
    records.sort(key=lambda one: one["key"])
    sorted_at = time.monotonic()
    for one in records:
        digest.update(b"%d %d %d" % (one["id"], one["key"], len(one["name"])))
    digest.update(b"%d" % total)
    figures = {"build_s": built - started, "access_s": visited - built, "sort_s": sorted_at - visited}
    print(json.dumps({"figures": figures, "checksum": digest.hexdigest()}))


main()
