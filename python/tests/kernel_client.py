"""Executes cells in a Jupyter kernel: `kernel_client.py KERNEL DIRECTORY CELLS`, with the cells as a JSON list.

The directory is that of the installed kernels, or empty. A cell `!interrupt` stands for one that sleeps and is
interrupted. What each cell has said is printed as a JSON list.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

PATIENCE_S = 60


def interrupt(manager: Any, client: Any) -> str:
    asked = client.execute("import time; time.sleep(600)")
    time.sleep(1)
    manager.interrupt_kernel()
    reply = client.get_shell_msg(timeout=PATIENCE_S)
    assert reply["parent_header"]["msg_id"] == asked, reply
    # What is asked just after an error is not executed.
    time.sleep(1)
    return str(reply["content"]["ename"])


def execute(client: Any, cell: str) -> str:
    said: list[str] = []

    def hear(message: dict[str, Any]) -> None:
        content = message["content"]
        data = content.get("data", {})
        said.append(content.get("text") or data.get("text/html") or data.get("text/plain") or "")

    reply = client.execute_interactive(cell, timeout=PATIENCE_S, output_hook=hear)
    assert reply["content"]["status"] == "ok", reply
    return "".join(said)


def main(kernel: str, directory: str, cells: list[str]) -> None:
    specs = KernelSpecManager(kernel_dirs=[directory]) if directory else KernelSpecManager()
    manager: Any = KernelManager(kernel_name=kernel, kernel_spec_manager=specs)
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE_S)
        said = [interrupt(manager, client) if cell == "!interrupt" else execute(client, cell) for cell in cells]
        manager.shutdown_kernel()
        assert not manager.is_alive()
        print(json.dumps(said))
    finally:
        client.stop_channels()
        if manager.is_alive():
            manager.shutdown_kernel(now=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
