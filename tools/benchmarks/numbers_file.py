"""Files of raw float32 numbers."""
import array


def read(path):
    numbers = array.array("f")
    with open(path, "rb") as f:
        numbers.frombytes(f.read())
    return numbers


def difference(a, b):
    """The largest difference of two files' numbers, relative to the largest number of the second; infinite when they do not fit, or only one is no number."""
    x, y = read(a), read(b)
    if len(x) != len(y) or not len(y):
        return float("inf")
    if any((p != p) != (q != q) for p, q in zip(x, y)):
        return float("inf")
    largest = max((abs(q) for q in y if q == q), default=0)
    worst = max((abs(p - q) for p, q in zip(x, y) if p != q and p == p), default=0)
    return worst / largest if largest else worst
