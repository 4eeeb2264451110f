"""Threads: many models at once, one thread a model, the interpreter lock free meanwhile."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

ONE = np.ones(1, np.float32)
SHAPE = (1, 3, 8, 8)
RACE = """
import sys, threading
import numpy as np, malisdk
path, count = sys.argv[1], 8
x = np.arange(192, dtype=np.float32).reshape(1, 3, 8, 8)
barrier, answers = threading.Barrier(count), []
def work():
    barrier.wait()
    with malisdk.load(path) as model:
        for _ in range(3):
            answers.append(model.run(x))
threads = [threading.Thread(target=work) for _ in range(count)]
for t in threads: t.start()
for t in threads: t.join()
assert len(answers) == 3 * count and all((y == 2 * x).all() for y in answers)
print("right")
"""


def count_while(thread: threading.Thread) -> int:
    ticks = 0
    while thread.is_alive():
        ticks += 1
        time.sleep(0.005)
    return ticks


def test_run_leaves_the_interpreter_free(malisdk, slow_model) -> None:
    with malisdk.load(slow_model) as model:
        seconds = []

        def work() -> None:
            start = time.perf_counter()
            model.run(ONE)
            seconds.append(time.perf_counter() - start)

        thread = threading.Thread(target=work)
        thread.start()
        ticks = count_while(thread)
        assert ticks > 3 and ticks > seconds[0] / 0.005 / 10


def test_second_thread_in_a_running_model_is_busy(malisdk, slow_model) -> None:
    with malisdk.load(slow_model) as model:
        for _ in range(5):  # a loaded machine may start the second thread after the first has ended
            start = threading.Barrier(2)

            def work(_: int, start: threading.Barrier = start) -> object:
                start.wait()
                try:
                    return float(model.run(ONE)[0])
                except malisdk.Error as e:
                    return e.status

            with ThreadPoolExecutor(2) as pool:
                answers = set(pool.map(work, range(2)))
            if answers != {2.0}:
                break
        assert answers == {2.0, "MALISDK_BUSY"}
        assert model.run(ONE) == 2


def test_close_while_running_waits_for_nobody_and_frees_nothing_early(malisdk, slow_model) -> None:
    model = malisdk.load(slow_model)
    results = []
    thread = threading.Thread(target=lambda: results.append(model.run(ONE)))
    thread.start()
    time.sleep(0.05)
    model.close()
    assert model.closed
    thread.join()
    assert results[0] == 2
    with pytest.raises(malisdk.Error, match="close"):
        model.run(ONE)


def test_one_model_a_thread_gives_equal_results(malisdk, double_model, pair_model) -> None:
    rng = np.random.default_rng(0)

    def work(seed: int) -> None:
        a = np.float32([seed, 2, 3, 4])
        with malisdk.load(pair_model) as pair, malisdk.load(double_model) as double:
            for _ in range(25):
                x = np.full(SHAPE, seed, np.float32)
                np.testing.assert_array_equal(double.run(x), 2 * x)
                np.testing.assert_array_equal(pair.run({"a": a, "b": a})["difference"], 0 * a)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, rng.integers(0, 1000, 16)))


@pytest.mark.parametrize("starts", [5, pytest.param(200, marks=pytest.mark.slow)])
def test_eight_threads_that_start_together_do_not_race(malisdk, double_model, starts: int) -> None:
    for _ in range(starts):
        done = subprocess.run(
            [sys.executable, "-c", RACE, double_model], capture_output=True, text=True, check=False, timeout=120
        )
        assert (done.returncode, done.stdout.strip()) == (0, "right"), done.stderr


def test_load_run_close_many_times_keeps_memory_flat(malisdk, double_model) -> None:
    def resident_kib() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

    x = np.ones(SHAPE, np.float32)

    def cycle(count: int) -> None:
        for _ in range(count):
            with malisdk.load(double_model) as model:
                model.run(x)
                with model.map_input() as frame:
                    frame[0] = 1

    cycle(50)
    before = resident_kib()
    cycle(200)
    assert resident_kib() - before < 4096
