// Serving predictions: an actor that puts the requests of many askers together, so that a step
// computes them all.
//
// A batcher takes the message that a session's actor takes, run_request, and answers with
// run_reply: whoever asks the one may ask the other. It may be published by CAF's middleman, for
// askers on other hosts (both sides call AddMessageTypes). Includes CAF 0.17.6; link
// troupe::actors.
//
// Thread rule: SpawnBatcher may be called from any thread.
#ifndef TROUPE_SERVING_H_
#define TROUPE_SERVING_H_

#include <caf/all.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "troupe/actors.h"
#include "troupe/export.h"
#include "troupe/session.h"
#include "troupe/status.h"

namespace TROUPE_EXPORT troupe {

struct BatcherOptions {
  // What each request feeds, all of it, in any order; and what it may fetch. Dimension 0 of each is
  // the rows, of which all feeds of a request have equally many. Fetches, too: as many rows as were
  // fed.
  Names feeds, fetches;
  // Rows of a step, at least 1. A request with more rows is a step by itself.
  int64_t max_batch = 32;
  // Numbers of rows, growing, the last of them max_batch: a step has one of these, so that a model
  // is run with few shapes. What is missing is filled by copies of the step's first row, whose
  // results are dropped. A request with more rows than max_batch is not filled up. Empty: a step
  // has as many rows as were asked for.
  std::vector<int64_t> allowed_batch_sizes = {};
  // How long the first request of a step waits for others, in microseconds; 0: a step takes what
  // has come while the one before it ran.
  int64_t max_delay_us = 1000;
  // Rows that may wait, at least 1; requests beyond are refused with RESOURCE_EXHAUSTED.
  int64_t max_waiting = 1024;
  // Steps that run at once, at least 1.
  int max_steps = 1;
  // Of a step, in ms; 0: none.
  int64_t timeout_ms = 0;
};

// Puts requests into steps of the session, in the order in which they came; those of other types or
// row shapes than the first that waits begin another step. Rows are computed together and handed
// back apart: the model must treat each row by itself. The batcher has a share of the session, and
// lives until it is sent an exit message; whoever waits then gets UNAVAILABLE. The requests of an
// asker that ends while they wait are not computed.
//
// The status of a run_reply: INVALID_ARGUMENT, the request does not fit the options, or has targets
// or a token, or asks for metadata or check_numerics; RESOURCE_EXHAUSTED, too many rows wait;
// UNAVAILABLE, the session or the batcher has ended; FAILED_PRECONDITION, a fetch has another
// number of rows than was fed; DEADLINE_EXCEEDED, the request's own deadline
// (RunOptions.timeout_ms) passed while it waited; ABORTED, the batcher died with the request in
// hand, since there was no memory; what the step failed with. When a step of several requests
// fails, each is run by itself once, so that the request at fault hurts no other.
//
// INVALID_ARGUMENT: impossible options, no session, or one that stands in a server
// (SessionOptions.target).
absl::StatusOr<caf::actor> SpawnBatcher(caf::actor_system& system, std::shared_ptr<Session> session,
                                        const BatcherOptions& options);

}  // namespace troupe

#endif  // TROUPE_SERVING_H_
