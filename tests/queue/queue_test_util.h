// Queues of one int32 component, which tests ask directly.
#ifndef TROUPE_TESTS_QUEUE_QUEUE_TEST_UTIL_H_
#define TROUPE_TESTS_QUEUE_QUEUE_TEST_UTIL_H_

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "kernels/queue/queue.h"

namespace troupe::queue {

inline QueueSpec Spec(int64_t capacity = -1, std::string kind = "FIFOQueue") {
  QueueSpec spec;
  spec.kind = std::move(kind);
  spec.name = "q";
  spec.types = {DType::kInt32};
  spec.shapes = {PartialTensorShape(TensorShape())};
  spec.capacity = capacity;
  return spec;
}

inline std::shared_ptr<Queue> NewQueue(QueueSpec spec) {
  auto machine = MakeMachine(std::move(spec));
  BOOST_REQUIRE_MESSAGE(machine.ok(), machine.status());
  return std::make_shared<Queue>(*std::move(machine));
}

// The request, asked.
inline QueueRequestPtr Ask(const Queue& q, QueueRequest::Kind kind) {
  auto r = std::make_shared<QueueRequest>(kind);
  q.Ask(r);
  return r;
}
inline QueueRequestPtr Enqueue(const Queue& q, const std::vector<int32_t>& values) {
  auto r = std::make_shared<QueueRequest>(QueueRequest::Kind::kEnqueue);
  for (const int32_t v : values) r->elements.push_back({Tensor::Scalar(v)});
  q.Ask(r);
  return r;
}
inline QueueRequestPtr Dequeue(const Queue& q, int64_t n = 1, QueueRequest::Kind kind = QueueRequest::Kind::kDequeue) {
  auto r = std::make_shared<QueueRequest>(kind);
  r->wanted = n;
  q.Ask(r);
  return r;
}
inline QueueRequestPtr DequeueUpTo(const Queue& q, int64_t n) {
  return Dequeue(q, n, QueueRequest::Kind::kDequeueUpTo);
}
inline QueueRequestPtr Close(const Queue& q, bool cancel = false) {
  return Ask(q, cancel ? QueueRequest::Kind::kCloseAndCancel : QueueRequest::Kind::kClose);
}

// What a request has come to: "waits", "OK", "OK 1 2" with the elements of a dequeue, or the error.
inline std::string Outcome(const QueueRequestPtr& r) {
  if (!r->answered()) return "waits";
  if (!r->status().ok()) return r->status().ToString();
  std::string text = "OK";
  if (r->kind == QueueRequest::Kind::kSize || r->kind == QueueRequest::Kind::kIsClosed)
    return StrCat(text, " ", r->number);
  if (r->kind != QueueRequest::Kind::kDequeue && r->kind != QueueRequest::Kind::kDequeueUpTo) return text;
  for (const Element& e : r->elements) StrAppend(&text, " ", e[0].scalar<int32_t>());
  return text;
}
inline std::string Size(const Queue& q) { return Outcome(Ask(q, QueueRequest::Kind::kSize)); }

}  // namespace troupe::queue

#endif  // TROUPE_TESTS_QUEUE_QUEUE_TEST_UTIL_H_
