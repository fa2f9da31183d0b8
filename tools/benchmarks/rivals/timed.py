"""How a rival's program takes a sample (tools/benchmarks/serve.h)."""
import statistics
import time


def median_seconds(run, seconds):
    """Of one call of `run`, which is called for `seconds`, at least once."""
    times, start = [], time.perf_counter()
    while not times or time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)
