// Precompiled for tests that look at actors: the tests' own, CAF, graphs as messages, and what
// steps are made of.
#include "cmake/pch/tests.h"

#include <caf/all.hpp>

#include "actors/executor/step_state.h"
#include "actors/runtime/runtime_impl.h"
#include "actors/wire/remote_messages.h"
#include "troupe/actors.h"
#include "troupe/kernel.h"
#include "troupe/node_builder.h"
#include "troupe/proto/config.pb.h"
#include "troupe/proto/graph.pb.h"
