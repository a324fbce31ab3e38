#!/usr/bin/env python3
"""A Python job that needs twice its budget: it keeps a day of requests in memory and goes through them three times.

    uswap run --ram 80M -- examples/python.py
    uswap run --ram 20M -- examples/python.py 100000       # fewer requests, a smaller budget

It prints the same as without uswap. At the end uswap says how much RAM was used.
"""

import gc
import random
import resource
import sys
from collections import Counter

count = int(sys.argv[1]) if len(sys.argv) > 1 else 500_000
random.seed(1)
# Nothing here is in a circle, and the collector looks at each object, and so at each page, again and again.
gc.disable()

requests = []
for number in range(count):
    path = f"/orders/{random.randrange(1_000_000):06d}/items?session={random.getrandbits(256):064x}&page={number}"
    requests.append((number * 86_400 / count, path, random.expovariate(1 / 20)))

# One pass for each question: in order, as most jobs go through their data.
of_hour = Counter(int(seconds) // 3600 for seconds, _, _ in requests)
slow = sum(milliseconds > 100 for _, _, milliseconds in requests)
longest = max(len(path) for _, path, _ in requests)
print(f"{count} requests, {of_hour[12]} of them at noon, {slow} slower than 0.1 s, longest path {longest} bytes")

# Without uswap: twice the budget that is worth trying.
peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(f"peak of this process in RAM: {peak_mib} MiB", file=sys.stderr)
