"""Pages of real programs, for `cargo run --release -p uswap-codec --example codec_bench`.

pages.py DIRECTORY [MIB [NAME...]]: for each program (redis, objects, cc1, jvm, pandas) writes DIRECTORY/NAME.pages: the
anonymous pages it has in RAM, one after the other, as they lie in its memory; at most so many MiB (32), in runs of 16
pages taken evenly from all of it. Needs root (/proc/PID/pagemap, /proc/PID/mem) and Linux on x86-64.

A program fills its memory, and says so or grows to a size; then it is stopped, read and ended. What is missing is named
and left out; the exit status is then 77.
"""

import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

SCRIPTS = pathlib.Path(__file__).resolve().parent
PAGE = 4096
# Pages that stay together: a unit of 64 KiB, so that larger units than a page can be tried.
RUN = 16
PYTHON = "/usr/bin/python3"

# What a process prints when its memory is full.
READY = "ready"

OBJECTS = """
import random, sys
NAMES = ("amber basket candle dragon engine forest guitar harbor island jungle kitchen ladder marble needle "
    "orange pepper").split()
class Order:
    def __init__(self, number, draw):
        self.number, self.price, self.shop = number, draw.randrange(100_000) / 100, NAMES[draw.randrange(16)]
        self.lines = {"%s-%d" % (NAMES[draw.randrange(16)], draw.randrange(9999)): draw.randrange(50) for _ in range(5)}
        self.past = [draw.randrange(1 << 40), (number, draw.getrandbits(20)), None,
            {draw.randrange(900), draw.randrange(900)}]
draw = random.Random(7)
orders = [Order(number, draw) for number in range(45_000)]
by_shop = {}
for order in draw.sample(orders, len(orders)):
    by_shop.setdefault(order.shop, []).append(order)
print("ready", flush=True)
sys.stdin.read()
"""

PANDAS = """
import sys
import numpy, pandas
random = numpy.random.Generator(numpy.random.PCG64(7))
rows = 300_000
frame = pandas.DataFrame({
    "order": random.permutation(rows), "customer": random.integers(0, rows // 20, rows),
    "time": 1_760_000_000 + random.integers(0, 30_000_000, rows),
    "shop": random.integers(0, 300, rows).astype(numpy.int32), "count": random.integers(1, 9, rows).astype(numpy.int32),
    "price": numpy.round(random.gamma(2.0, 20.0, rows), 2), "weight": numpy.round(random.normal(5.0, 1.0, rows), 1),
    "noise": random.normal(0.0, 1.0, rows)})
ordered = frame.sort_values(["customer", "time", "order"], kind="stable")
groups = ordered.groupby("customer").agg({"price": "sum", "count": "sum", "time": "max", "weight": "mean"})
print("ready", flush=True)
sys.stdin.read()
"""

JAVA = """
import java.util.*;
public class Orders {
    record Line(String name, int count, double price) {}
    static class Order {
        long number; Date day; List<Line> lines = new ArrayList<>(); Map<String, Object> notes = new HashMap<>();
        Order next;
    }
    public static void main(String[] arguments) throws Exception {
        String[] names =
            "amber basket candle dragon engine forest guitar harbor island jungle kitchen ladder".split(" ");
        Random draw = new Random(7);
        List<Order> orders = new ArrayList<>();
        for (int number = 0; number < 60_000; number++) {
            Order order = new Order();
            order.number = number;
            order.day = new Date(1_760_000_000_000L + draw.nextInt(1_000_000_000));
            for (int line = 0; line < 4; line++)
                order.lines.add(new Line(names[draw.nextInt(12)] + "-" + draw.nextInt(10_000), draw.nextInt(20),
                    draw.nextInt(100_000) / 100.0));
            order.notes.put("shop", names[draw.nextInt(12)]);
            order.notes.put("customer", draw.nextInt(5_000));
            order.next = number > 0 ? orders.get(draw.nextInt(number)) : null;
            orders.add(order);
        }
        Collections.shuffle(orders, draw);
        System.out.println("ready");
        System.in.read();
    }
}
"""


class Missing(Exception):
    """A program that is not there; the text names the package."""


def need(program, package):
    if shutil.which(program) is None:
        raise Missing(f"{program} is missing: apt install {package}")


def started(command, **options):
    """A process that has said that it is ready."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
    for line in process.stdout:
        if line.strip() == READY:
            return process
    raise Missing(f"{command[0]} ended with {process.wait()}")


def resident_pages(pid):
    with open(f"/proc/{pid}/statm") as statm:
        return int(statm.read().split()[1])


def redis(work):
    for program in ("redis-server", "redis-cli"):
        need(program, "redis-server")
    environment = os.environ | {"BYTES": "64000000", "SEED": "7", "WORK": str(work), "RUN_S": "1"}
    subprocess.run(["sh", SCRIPTS / "redis.sh", "prepare"], env=environment, check=True)
    socket = work / "pages.sock"
    options = ["--port", "0", "--unixsocket", socket, "--dir", work, "--save", "", "--appendonly", "no"]
    process = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
    try:
        while not socket.exists():
            if process.poll() is not None:
                raise Missing(f"redis-server ended with {process.returncode}")
            time.sleep(0.05)
        with open(work / "fill") as fill:
            subprocess.run(["redis-cli", "-s", socket, "--pipe"], stdin=fill, stdout=subprocess.DEVNULL, check=True)
    except BaseException:
        process.kill()
        raise
    return process


def objects(_work):
    return started([PYTHON, "-c", OBJECTS])


def pandas(_work):
    if subprocess.run([PYTHON, "-c", "import pandas"], stderr=subprocess.DEVNULL).returncode != 0:
        raise Missing("pandas is missing: apt install python3-pandas")
    return started([PYTHON, "-c", PANDAS], env=os.environ | {"OPENBLAS_NUM_THREADS": "1"})


def jvm(work):
    need("javac", "default-jdk-headless")
    (work / "Orders.java").write_text(JAVA)
    subprocess.run(["javac", "-d", work, work / "Orders.java"], check=True)
    return started(["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", str(work), "Orders"])


def cc1(work):
    need("gcc", "gcc")
    environment = os.environ | {"BYTES": "200000000", "SEED": "7", "WORK": str(work), "THREADS": "1"}
    subprocess.run(["sh", SCRIPTS / "build.sh", "prepare"], env=environment, check=True)
    asked = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True, check=True)
    compiler = asked.stdout.strip()
    process = subprocess.Popen([compiler, "-quiet", "-O2", "-w", work / "build/unit0.c", "-o", "/dev/null"])
    while process.poll() is None and resident_pages(process.pid) * PAGE < 120 << 20:
        time.sleep(0.01)
    if process.poll() is not None:
        raise Missing(f"cc1 ended with {process.returncode} before it was large")
    return process


PROGRAMS = {"redis": redis, "objects": objects, "cc1": cc1, "jvm": jvm, "pandas": pandas}


def runs_of(pid):
    """Addresses of runs of `RUN` anonymous pages that are all in RAM. Aligned to a run."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/pagemap", "rb") as pagemap:
        for line in maps:
            fields = line.split()
            start, end = (int(part, 16) for part in fields[0].split("-"))
            if not fields[1].startswith("rw") or fields[4] != "0" or end - start < RUN * PAGE:
                continue
            pagemap.seek(start // PAGE * 8)
            entries = struct.unpack(f"<{(end - start) // PAGE}Q", pagemap.read((end - start) // PAGE * 8))
            first = -(start // PAGE) % RUN
            for index in range(first, len(entries) - RUN + 1, RUN):
                # Bit 63: in RAM; bit 61: of a file.
                if all(entry >> 61 & 0b101 == 0b100 for entry in entries[index : index + RUN]):
                    yield start + index * PAGE


def dump(process, path, pages_max):
    os.kill(process.pid, signal.SIGSTOP)
    runs = list(runs_of(process.pid))
    runs_max = pages_max // RUN
    kept = [runs[index * len(runs) // runs_max] for index in range(runs_max)] if len(runs) > runs_max else runs
    with open(f"/proc/{process.pid}/mem", "rb", buffering=0) as memory, open(path, "wb") as out:
        for address in kept:
            memory.seek(address)
            out.write(memory.read(RUN * PAGE))
    print(f"{path}: {len(kept) * RUN} of {len(runs) * RUN} pages")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    directory = pathlib.Path(sys.argv[1])
    pages_max = int(sys.argv[2] if len(sys.argv) > 2 else 32) * 256
    directory.mkdir(parents=True, exist_ok=True)
    is_complete = True
    for name in sys.argv[3:] or PROGRAMS:
        with tempfile.TemporaryDirectory() as work:
            try:
                process = PROGRAMS[name](pathlib.Path(work))
            except Missing as missing:
                print(f"{name}: {missing}")
                is_complete = False
                continue
            try:
                dump(process, directory / f"{name}.pages", pages_max)
            finally:
                process.kill()
                process.wait()
    sys.exit(0 if is_complete else 77)


main()
