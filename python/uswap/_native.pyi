from typing import TypedDict

class _StatsFields(TypedDict):
    ram_bytes: int
    used_bytes: int
    resident_bytes: int
    pool_bytes: int
    pool_bytes_max: int
    swap_file_bytes: int
    counters: dict[str, int]

__version__: str
LARGE_BYTES: int

def limit(
    ram: str,
    *,
    swap: list[str],
    pool: str | None,
    on_full: str | None,
    report: str | None,
    command: str | None,
) -> None: ...
def pool(
    ram: str | None,
    *,
    swap: list[str],
    pool: str | None,
    on_full: str | None,
    report: str | None,
    command: str | None,
) -> None: ...
def use_managed() -> object: ...
def use_handler(handler: object) -> object: ...
def take_refusal() -> str | None: ...
def advise(start: int, bytes: int, advice: str) -> None: ...
def release() -> None: ...
def stats() -> _StatsFields: ...
def is_limited() -> bool: ...
