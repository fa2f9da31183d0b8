"""Files of raw float32 numbers."""
import array


def read(path):
    numbers = array.array("f")
    with open(path, "rb") as f:
        numbers.frombytes(f.read())
    return numbers


def difference(a, b):
    """The largest difference of two files' numbers, relative to the largest number of the second; infinite when they do not fit."""
    x, y = read(a), read(b)
    if len(x) != len(y) or not len(y):
        return float("inf")
    largest = max(map(abs, y))
    worst = max(abs(p - q) for p, q in zip(x, y))
    return worst / largest if largest else worst
