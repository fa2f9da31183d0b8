// The code of docs/guide/queues.md.
#include "tests/docs/pages.h"
#include "troupe/train/coordinator.h"
#include "troupe/train/input.h"
#include "troupe/train/queue_runner.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

// [queue]
absl::Status HandOver(std::vector<float>* seen) {
  Scope root = Scope::NewRootScope();
  Queue q = Queue::Fifo(root.WithOpName("q"), {DType::kFloat, DType::kInt32},
                        {.capacity = 100, .shapes = {{2}, TensorShape()}});
  Output image = ops::Placeholder(root.WithOpName("image"), DType::kFloat);
  Output label = ops::Placeholder(root.WithOpName("label"), DType::kInt32);
  Operation put = q.Enqueue(root, {image, label});  // a step that runs it waits while 100 elements are there
  OutputList batch = q.DequeueMany(root, 3);        // float32 [3,2] and int32 [3]
  Operation close = q.Close(root);
  TROUPE_RETURN_IF_ERROR(root.status());

  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create());
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  for (int i = 0; i < 4; ++i) {
    Tensor pixels = Tensor::Vector<float>({1.0f * i, 0.5f});
    TROUPE_RETURN_IF_ERROR(session->Run({{image, pixels}, {label, Tensor::Scalar(i)}}, {}, {put}, nullptr));
  }
  TROUPE_RETURN_IF_ERROR(session->Run({}, {}, {close}, nullptr));
  for (;;) {
    std::vector<Tensor> out;
    absl::Status s = session->Run({}, {batch[0], batch[1]}, {}, &out);
    if (absl::IsOutOfRange(s)) return absl::OkStatus();  // closed, and fewer than three are left
    TROUPE_RETURN_IF_ERROR(s);
    for (float x : out[0].flat<float>()) seen->push_back(x);
  }
}
// [/queue]

BOOST_AUTO_TEST_CASE(elements_are_handed_over) {
  std::vector<float> seen;
  const absl::Status s = HandOver(&seen);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST((seen == std::vector<float>{0, 0.5f, 1, 0.5f, 2, 0.5f}));
}

// [pipeline]
absl::Status Train(int* steps) {
  Scope root = Scope::NewRootScope();
  // Numbers 0 to 99 in random order, twice.
  Queue numbers = train::RangeInputProducer(root, 100, {.num_epochs = 2, .seed = 1});
  Output x = ops::Cast(root, numbers.Dequeue(root)[0], DType::kFloat);
  // 20 at a time; two steps at a time compute them.
  OutputList batch = train::Batch(root, {x, 3.0f * x}, {.batch_size = 20, .num_threads = 2, .capacity = 60});
  Variable w(root.WithOpName("w"), 0.0f);
  Output loss = ops::Mean(root, ops::Square(root, w * batch[0] - batch[1]));
  Operation update = train::GradientDescent(1e-4f).Minimize(root, loss);
  Operation init = GlobalVariablesInitializer(root.WithOpName("init"));
  Operation epochs = LocalVariablesInitializer(root.WithOpName("epochs"));  // they are counted in a local variable
  TROUPE_RETURN_IF_ERROR(root.status());

  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create());
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  TROUPE_RETURN_IF_ERROR(session->Run({}, {}, {init, epochs}, nullptr));
  train::Coordinator coordinator(*session);
  absl::Status s = train::StartQueueRunners(*session, coordinator, *root.graph());
  while (s.ok() && !coordinator.ShouldStop()) {
    s = session->Run({}, {}, {update}, nullptr);
    *steps += s.ok();
  }
  coordinator.RequestStop(s);  // OUT_OF_RANGE: the input has ended, which is no error
  return coordinator.Join();   // the first error of the runners or of this loop
}
// [/pipeline]

BOOST_AUTO_TEST_CASE(a_pipeline_trains) {
  int steps = 0;
  const absl::Status s = Train(&steps);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(steps == 10);
}

}  // namespace
}  // namespace troupe
