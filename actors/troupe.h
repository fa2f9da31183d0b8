// Everything a program needs: build a graph, run it, train it. Pulls in neither CAF nor Eigen nor oneDNN.
#ifndef TROUPE_ACTORS_TROUPE_H_
#define TROUPE_ACTORS_TROUPE_H_

#include "troupe/graph/api/const.h"
#include "troupe/graph/api/group.h"
#include "troupe/graph/api/operators.h"
#include "troupe/graph/api/scope.h"
#include "troupe/graph/api/variable.h"
#include "troupe/graph/core/status.h"
#include "troupe/graph/core/tensor.h"
#include "troupe/ops.h"

#endif  // TROUPE_ACTORS_TROUPE_H_
