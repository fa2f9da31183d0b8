// Precompiled for the examples: what a small program includes.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "troupe/troupe.h"
