// Includes the headers that most programs need: build a graph, run it, train it. Includes neither
// CAF nor Eigen nor oneDNN nor Protocol Buffers.
//
// Thread rule: that of each header.
#ifndef TROUPE_TROUPE_H_
#define TROUPE_TROUPE_H_

#include "troupe/const.h"
#include "troupe/control_flow.h"
#include "troupe/emit.h"
#include "troupe/functional.h"
#include "troupe/gradients.h"
#include "troupe/group.h"
#include "troupe/operators.h"
#include "troupe/ops.h"
#include "troupe/runtime.h"
#include "troupe/scope.h"
#include "troupe/session.h"
#include "troupe/status.h"
#include "troupe/tensor.h"
#include "troupe/train/adam.h"
#include "troupe/train/clip.h"
#include "troupe/train/gradient_descent.h"
#include "troupe/train/initializers.h"
#include "troupe/train/layers.h"
#include "troupe/train/momentum.h"
#include "troupe/train/schedules.h"
#include "troupe/variable.h"

#endif  // TROUPE_TROUPE_H_
