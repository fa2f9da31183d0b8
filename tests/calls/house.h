// A runtime in an actor system of the program's, and actors that its graphs call.
//
// Thread rule: one thread, but for what an actor does.
#ifndef TROUPE_TESTS_CALLS_HOUSE_H_
#define TROUPE_TESTS_CALLS_HOUSE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/cast/play.h"
#include "troupe/open_cast.h"
#include "troupe/troupe.h"

namespace troupe {

inline Tensor Floats(std::initializer_list<float> values) { return Tensor::Vector<float>(values); }

inline std::vector<float> ValuesOf(const Tensor& t) { return {t.data<float>(), t.data<float>() + t.num_elements()}; }

// Each element with itself.
inline Tensor Squared(const Tensor& x) {
  Tensor y(DType::kFloat, x.shape());
  for (int64_t i = 0; i < x.num_elements(); ++i) y.data<float>()[i] = x.data<float>()[i] * x.data<float>()[i];
  return y;
}

// An actor that answers what `f` says.
inline caf::actor Answering(caf::actor_system& system, std::function<actor_answer(const actor_call&)> f) {
  return system.spawn(
      [](caf::event_based_actor*, std::function<actor_answer(const actor_call&)> answer) -> caf::behavior {
        return {[answer](const actor_call& c) { return answer(c); }};
      },
      std::move(f));
}

// A runtime in an actor system of the program's; x is a vector of floats.
struct House {
  explicit House(int devices = 1, int64_t memory_limit = 0) {
    runtime = StartRuntimeIn(system, {.threads = 2, .cpu_devices = devices, .memory_limit = memory_limit}).value();
    x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  }
  void Name(const std::string& name, const caf::actor& actor) { TROUPE_REQUIRE_OK(NameActor(*runtime, name, actor)); }
  absl::Status Run(const Output& y, Tensor* out, int64_t timeout_ms = 0) {
    if (session == nullptr) {
      SessionOptions options;
      options.runtime = runtime;
      session = NewSession(root, options);
    } else {
      TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
    }
    std::vector<Tensor> outs;
    RunOptions options;
    if (timeout_ms > 0) options.timeout_ms = timeout_ms;
    const absl::Status s = session->Run(options, {{"x", Floats({1, 2, 3})}}, {y.name()}, {}, &outs, nullptr);
    if (s.ok()) *out = outs.at(0);
    return s;
  }
  absl::Status Fails(const Output& y, int64_t timeout_ms = 0) {
    Tensor out;
    return Run(y, &out, timeout_ms);
  }
  caf::actor_system_config config;
  caf::actor_system system{config};
  std::shared_ptr<Runtime> runtime;
  Scope root = Scope::NewRootScope();
  Output x;
  std::unique_ptr<Session> session;
};

inline bool Says(const absl::Status& s, const std::string& text) {
  return std::string(s.message()).find(text) != std::string::npos;
}

// An actor that answers when it is told, perhaps twice.
struct Late {
  explicit Late(caf::actor_system& system) {
    actor = system.spawn(
        [](caf::event_based_actor* self, Late* late) -> caf::behavior {
          return {[self, late](const actor_call& c) {
                    auto promise = self->make_response_promise<actor_answer>();
                    late->promises.push_back(promise);
                    late->asked.push_back(c.tensors);
                    ++late->calls;
                    return promise;
                  },
                  [late](int) {
                    for (size_t i = 0; i < late->promises.size(); ++i)
                      late->promises[i].deliver(actor_answer{{}, {Squared(late->asked[i].at(0))}});
                    late->promises.clear();
                    late->asked.clear();
                    return 1;
                  }};
        },
        this);
  }
  std::vector<caf::typed_response_promise<actor_answer>> promises;
  std::vector<std::vector<Tensor>> asked;
  std::atomic<int> calls{0};
  caf::actor actor;
};

}  // namespace troupe

#endif  // TROUPE_TESTS_CALLS_HOUSE_H_
