"""A network is trained within a budget, and comes out as it does without."""

from __future__ import annotations

import importlib.util

import pytest
from conftest import Python

if importlib.util.find_spec("torch") is None:
    pytest.skip("there is no torch", allow_module_level=True)

# Weights, gradients and what the optimizer keeps: some 130 MiB, of which each step uses all.
TRAINING = """
    import os, sys
    import torch
    import uswap

    torch.manual_seed(5)
    torch.set_num_threads(2)

    def own_bytes():
        "What is resident and is no file or shared memory."
        _, resident, shared, *_ = map(int, open("/proc/self/statm").read().split())
        return (resident - shared) * os.sysconf("SC_PAGESIZE")

    network = torch.nn.Sequential(torch.nn.Linear(512, 8192), torch.nn.ReLU(), torch.nn.Linear(8192, 512))
    data = torch.randn(128, 512)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        loss = ((network(data) - data) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    losses = [step()]
    if sys.argv[1] == "within":
        # The threads of torch run already.
        budget = own_bytes() // 2
        uswap.limit(budget)
    losses += [step() for _ in range(3)]
    if sys.argv[1] == "within":
        stats = uswap.stats()
        assert stats.used_bytes <= budget * 1.05, stats
        assert stats.pool_bytes + stats.swap_file_bytes > 0, stats
    print(losses, sum(float(weights.abs().sum()) for weights in network.parameters()))
"""


def test_a_training_step_after_the_limit_is_the_same(python: Python) -> None:
    within, without = (python(TRAINING, words).stdout for words in ("within", "without"))
    assert within == without != ""
