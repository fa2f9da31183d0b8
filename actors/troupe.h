// Everything a program needs: build a graph, run it, train it. Pulls in neither CAF nor Eigen nor oneDNN.
#ifndef TROUPE_ACTORS_TROUPE_H_
#define TROUPE_ACTORS_TROUPE_H_

#include "troupe/actors/runtime.h"
#include "troupe/actors/session.h"
#include "troupe/graph/api/const.h"
#include "troupe/graph/api/control_flow_ops.h"
#include "troupe/graph/api/functional.h"
#include "troupe/graph/api/group.h"
#include "troupe/graph/api/operators.h"
#include "troupe/graph/api/scope.h"
#include "troupe/graph/api/variable.h"
#include "troupe/graph/autodiff/gradients.h"
#include "troupe/graph/core/status.h"
#include "troupe/graph/core/tensor.h"
#include "troupe/graph/train/adam.h"
#include "troupe/graph/train/clip.h"
#include "troupe/graph/train/gradient_descent.h"
#include "troupe/graph/train/initializers.h"
#include "troupe/graph/train/layers.h"
#include "troupe/graph/train/momentum.h"
#include "troupe/graph/train/schedules.h"
#include "troupe/ops.h"

#endif  // TROUPE_ACTORS_TROUPE_H_
