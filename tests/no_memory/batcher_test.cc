// A batcher whose memory runs out, at each allocation of its turns in turn: whoever asked it is
// answered.
#include <string>

#include "tests/cast/play.h"
#include "tests/no_memory/each_allocation.h"
#include "troupe/serving.h"
#include "troupe/troupe.h"

namespace troupe {
namespace batcher_test {

using testing::AtEachAllocation;
using testing::Failing;

BOOST_AUTO_TEST_SUITE(batchers)

// Three requests: the first is a step, the others wait and are the next one together. In turn
// number `turn` of the batcher an allocation fails.
BOOST_AUTO_TEST_CASE(edge_9_whoever_asks_without_memory_is_answered) {
  for (int turn = 0; turn < 5; ++turn) {
    AtEachAllocation(
        [&](long k) {
          Play p;
          p.Extend();
          p.Warm({{"x", Tensor()}}, {"twice"});
          const auto kept = std::make_unique<std::shared_ptr<Session>>(std::move(p.session));
          caf::actor batcher, asker;
          int answers = 0;
          std::string said;
          p.stage.Inline([&] {
            BatcherOptions options;
            options.feeds = {"x"};
            options.fetches = {"twice"};
            options.max_delay_us = 0;
            batcher = SpawnBatcher(p.stage.system(), *kept, options).value();
            asker = p.stage.system().spawn(
                [&](caf::event_based_actor* self, int) -> caf::behavior {
                  return {[&, self](int i) {
                    run_request r;
                    r.feeds = {{"x", Tensor::Of<float>({1, 2}, {1, 2})}};
                    r.fetches = {"twice"};
                    self->request(batcher, caf::infinite, r)
                        .then(
                            [&, i](const run_reply& reply) {
                              ++answers;
                              StrAppend(&said, i, ": ", absl::StatusCodeToString(reply.status.code()), "; ");
                            },
                            [&, i](const caf::error&) {
                              ++answers;
                              StrAppend(&said, i, ": an error; ");
                            });
                  }};
                },
                0);
          });
          auto& jobs = p.stage.scheduler().jobs;
          for (int i = 0; i < 3; ++i) caf::anon_send(asker, i);
          int turns = 0;
          long failed = 0;
          while (!jobs.empty()) {
            const auto* const actor = dynamic_cast<caf::local_actor*>(jobs.front());
            const bool is_it = actor != nullptr && std::string_view(actor->name()) == "troupe.batcher";
            if (is_it && turns++ == turn) {
              const Failing no_memory(k, 1);
              p.stage.scheduler().run_once();
              failed = Failing::failed();
            } else {
              p.stage.scheduler().run_once();
            }
          }
          for (int i = 0; i < 20; ++i) {
            p.stage.Play();
            p.stage.Advance(std::chrono::milliseconds(5));
          }
          BOOST_TEST(turns > turn);
          BOOST_TEST(answers == 3, "turn " << turn << ", allocation " << k << ": " << said);
          p.stage.Inline([&] {
            caf::anon_send_exit(batcher, caf::exit_reason::user_shutdown);
            caf::anon_send_exit(asker, caf::exit_reason::user_shutdown);
            batcher = asker = nullptr;
          });
          p.stage.Inline([&] { *kept = nullptr; });
          return failed > 0;
        },
        400);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace batcher_test
}  // namespace troupe
