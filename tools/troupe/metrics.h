// The status of a server in the text form of Prometheus (version 0.0.4).
//
// Thread rule: a pure function.
#ifndef TROUPE_TOOLS_TROUPE_METRICS_H_
#define TROUPE_TOOLS_TROUPE_METRICS_H_

#include <string>

#include "troupe/server.h"

namespace troupe::tool {

std::string MetricsText(const ServerStatus& status);

}  // namespace troupe::tool

#endif  // TROUPE_TOOLS_TROUPE_METRICS_H_
