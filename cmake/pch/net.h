// Precompiled for net/: CAF, and what a server has of the floors below.
#include <algorithm>
#include <caf/all.hpp>

#include "net/client_messages.h"
#include "net/messages.h"
#include "troupe/cluster.h"
#include "troupe/server.h"
