// A queue of the program's own: an actor that hands out what is most urgent first, and lets whoever
// finds it empty or full wait. Graphs put elements in and take them out by CallActor nodes.
#include <algorithm>
#include <caf/all.hpp>
#include <cstdio>
#include <deque>
#include <string>
#include <vector>

#include "troupe/open_cast.h"
#include "troupe/troupe.h"

using namespace troupe;

namespace {

using Promise = caf::typed_response_promise<actor_answer>;

struct Element {
  float urgency = 0;
  Tensor value;
};

// A node that waits. It asks by an actor of its own, which ends when the node's time is over.
struct Waiting {
  caf::actor_addr node;
  Promise promise;
  Element element;  // of one who has something to put in
};

struct Queue {
  size_t capacity = 4;
  std::vector<Element> elements;  // a heap
  std::deque<Waiting> takers;     // of an empty queue
  std::deque<Waiting> givers;     // of a full one
  static bool Less(const Element& a, const Element& b) { return a.urgency < b.urgency; }

  void Put(Element element) {
    elements.push_back(std::move(element));
    std::push_heap(elements.begin(), elements.end(), Less);
  }
  Element Take() {
    std::pop_heap(elements.begin(), elements.end(), Less);
    Element element = std::move(elements.back());
    elements.pop_back();
    return element;
  }
  // Whoever can go on now, does.
  void Serve() {
    while (!givers.empty() && elements.size() < capacity) {
      Put(std::move(givers.front().element));
      givers.front().promise.deliver(actor_answer{});
      givers.pop_front();
    }
    while (!takers.empty() && !elements.empty()) {
      const Element element = Take();
      takers.front().promise.deliver(actor_answer{{}, {Tensor::Scalar(element.urgency), element.value}});
      takers.pop_front();
    }
  }
  void Forget(const caf::actor_addr& node) {
    for (std::deque<Waiting>* all : {&takers, &givers})
      std::erase_if(*all, [&](const Waiting& w) { return w.node == node; });
  }
};

// A call with tensors (urgency, value) puts an element in; one without takes one out.
caf::behavior Serve(caf::stateful_actor<Queue>* self) {
  self->set_down_handler([self](const caf::down_msg& down) { self->state.Forget(down.source); });
  return {[self](const actor_call& call) -> caf::result<actor_answer> {
    Queue& queue = self->state;
    const caf::actor_addr node = caf::actor_cast<caf::actor_addr>(self->current_sender());
    const Promise promise = self->make_response_promise<actor_answer>();
    self->monitor(caf::actor_cast<caf::actor>(node));
    if (call.tensors.empty()) {
      queue.takers.push_back({node, promise, {}});
    } else if (call.tensors.size() == 2 && call.tensors[0].dtype() == DType::kFloat && call.tensors[0].rank() == 0) {
      queue.givers.push_back({node, promise, {call.tensors[0].scalar<float>(), call.tensors[1]}});
    } else {
      return actor_answer{absl::InvalidArgumentError("an element is an urgency and a value"), {}};
    }
    queue.Serve();
    return promise;
  }};
}

absl::Status Run(caf::actor_system& system) {
  SessionOptions options;
  TROUPE_ASSIGN_OR_RETURN(options.runtime, StartRuntimeIn(system, {.threads = 2}));
  TROUPE_RETURN_IF_ERROR(NameActor(*options.runtime, "urgent", system.spawn(Serve)));
  const Scope root = Scope::NewRootScope();
  const Output urgency = ops::Placeholder(root.WithOpName("urgency"), DType::kFloat, {.shape = {}});
  const Output value = ops::Placeholder(root.WithOpName("value"), DType::kString, {.shape = {}});
  CallActor(root.WithOpName("put"), "urgent", {urgency, value}, {});
  const OutputList taken = CallActor(root.WithOpName("take"), "urgent", {}, {DType::kFloat, DType::kString});
  TROUPE_RETURN_IF_ERROR(root.status());
  TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(options));
  options.runtime = nullptr;
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));

  const auto put = [&](float how, const std::string& what) {
    return session->Run({{"urgency", Tensor::Scalar(how)}, {"value", Tensor::Scalar(what)}}, {}, {"put"}, nullptr);
  };
  TROUPE_RETURN_IF_ERROR(put(1, "sweep the floor"));
  TROUPE_RETURN_IF_ERROR(put(9, "put out the fire"));
  TROUPE_RETURN_IF_ERROR(put(5, "answer the phone"));
  std::string order;
  for (int i = 0; i < 3; ++i) {
    std::vector<Tensor> out;
    TROUPE_RETURN_IF_ERROR(session->Run({}, {taken[0], taken[1]}, {}, &out));
    std::printf("%g: %s\n", out[0].scalar<float>(), out[1].scalar<std::string>().c_str());
    order += std::to_string(static_cast<int>(out[0].scalar<float>()));
  }
  if (order != "951") return absl::InternalError("not the most urgent first");
  // Who finds nothing waits, as long as it has time.
  RunOptions short_of_time;
  short_of_time.timeout_ms = 50;
  std::vector<Tensor> out;
  const absl::Status late = session->Run(short_of_time, {}, {taken[1]}, {}, &out, nullptr);
  std::printf("then: %s\n", std::string(absl::StatusCodeToString(late.code())).c_str());
  if (!absl::IsDeadlineExceeded(late)) return absl::InternalError("nobody waited");
  // It is forgotten, and takes nothing from others.
  TROUPE_RETURN_IF_ERROR(put(2, "water the flowers"));
  TROUPE_RETURN_IF_ERROR(session->Run({}, {taken[1]}, {}, &out));
  std::printf("at last: %s\n", out[0].scalar<std::string>().c_str());
  return session->Close();
}

}  // namespace

int main() {
  caf::actor_system_config config;
  caf::actor_system system(config);
  const absl::Status status = Run(system);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() && std::fflush(stdout) == 0 ? 0 : 1;
}
