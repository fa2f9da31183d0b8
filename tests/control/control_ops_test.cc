// Kernels of the control flow ops and of those that end or report on a step.
#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <fstream>
#include <map>

#include "kernels/control/edge_key.h"
#include "kernels/control/summarize.h"
#include "troupe/evaluate.h"

namespace troupe {
namespace control_ops_test {

absl::StatusOr<std::vector<Tensor>> Run(std::string_view op, std::vector<Tensor> inputs, AttrMap attrs = {},
                                        std::vector<int> lists = {}, const EvaluateOptions& options = {}) {
  return EvaluateOp(op, std::move(inputs), std::move(attrs), std::move(lists), options);
}
bool Says(const absl::Status& s, const std::string& part) { return s.ToString().find(part) != std::string::npos; }
const Tensor kSeven = Tensor::Scalar<float>(7);

BOOST_AUTO_TEST_SUITE(control)

BOOST_AUTO_TEST_CASE(switch_leaves_one_side_dead) {
  for (bool pred : {false, true}) {
    const auto out = *Run("Switch", {kSeven, Tensor::Scalar<bool>(pred)});
    BOOST_TEST(out[pred].valid());
    BOOST_TEST(!out[!pred].valid());
    BOOST_TEST(out[pred].raw() == kSeven.raw());
  }
  BOOST_TEST(Says(Run("Switch", {kSeven, Tensor::Vector<bool>({true})}).status(), "pred must be a scalar"));
}

BOOST_AUTO_TEST_CASE(merge_passes_the_live_one) {
  Graph graph;
  Node* const node = *graph.AddNode("m", "Merge", {{"N", 6}, {"T", DType::kFloat}});
  for (int live = 0; live < 6; ++live) {
    std::vector<Tensor> inputs(6);
    inputs[live] = kSeven;
    const auto out = *EvaluateNode(*node, inputs);
    BOOST_TEST(*out[0].data<float>() == 7);
    BOOST_TEST(*out[1].data<int32_t>() == live);
  }
  BOOST_TEST(Says(EvaluateNode(*node, std::vector<Tensor>(6)).status(), "without a live input"));
}

BOOST_AUTO_TEST_CASE(the_rest_hands_its_input_on) {
  const AttrMap frame = {{"frame_name", "f"}};
  BOOST_TEST((*Run("Enter", {kSeven}, frame))[0].raw() == kSeven.raw());
  for (const char* op : {"Exit", "NextIteration"}) BOOST_TEST((*Run(op, {kSeven}))[0].raw() == kSeven.raw());
  BOOST_TEST(*(*Run("LoopCond", {Tensor::Scalar<bool>(true)}))[0].data<bool>());
  BOOST_TEST(Run("NoOp", {}).ok());
  BOOST_TEST(Run("ControlTrigger", {}).ok());
  BOOST_TEST(Run("_Retval", {kSeven}, {{"index", 0}}).ok());
  BOOST_TEST((Run("_Arg", {}, {{"index", 0}, {"T", DType::kFloat}}).status().code() == absl::StatusCode::kInternal));
}

BOOST_AUTO_TEST_CASE(references_pass_too) {
  const Tensor ref = (*Run("VariableV2", {},
                           {{"shape", TensorShape()}, {"dtype", DType::kFloat}, {"shared_name", "control test"}}))[0];
  const auto sides = *Run("RefSwitch", {ref, Tensor::Scalar<bool>(true)});
  BOOST_TEST((sides[1].dtype() == MakeRef(DType::kFloat)));
  BOOST_TEST((*Run("RefEnter", {ref}, {{"frame_name", "f"}}))[0].raw() == ref.raw());
  const Tensor other =
      (*Run("VariableV2", {}, {{"shape", TensorShape()}, {"dtype", DType::kFloat}, {"shared_name", "another"}}))[0];
  BOOST_TEST((*Run("RefSelect", {Tensor::Scalar<int32_t>(1), ref, other}, {}, {2}))[0].raw() == other.raw());
  BOOST_TEST(Says(Run("RefSelect", {Tensor::Scalar<int32_t>(2), ref, other}, {}, {2}).status(), "not in [0, 2)"));
}

// Keeps what was sent.
class Mailbox : public TensorExchange {
 public:
  absl::Status Send(const std::string& edge, uint64_t frame_iter, Tensor value, bool dead) override {
    kept[{edge, frame_iter}] = {std::move(value), dead};
    return absl::OkStatus();
  }
  void Recv(const std::string& edge, uint64_t frame_iter,
            std::function<void(absl::Status, Tensor, bool)> done) override {
    const auto it = kept.find({edge, frame_iter});
    if (it == kept.end()) return done(Cancelled("nobody sent '", edge, "'"), Tensor(), false);
    done(absl::OkStatus(), it->second.first, it->second.second);
  }
  std::map<std::pair<std::string, uint64_t>, std::pair<Tensor, bool>> kept;
};

BOOST_AUTO_TEST_CASE(send_and_recv_meet_by_their_key) {
  const AttrMap names = {{"tensor_name", "edge_1_w"},
                         {"send_device", "/job:a"},
                         {"send_device_incarnation", -2},
                         {"recv_device", "/job:b"}};
  AttrMap recv = names;
  recv.Set("tensor_type", DType::kFloat);
  for (const char* host : {"", "Host"}) {
    Mailbox mailbox;
    EvaluateOptions options;
    options.exchange = &mailbox;
    BOOST_REQUIRE(Run(StrCat("_", host, "Send"), {kSeven}, names, {}, options).ok());
    BOOST_REQUIRE(mailbox.kept.size() == 1u);
    BOOST_TEST(mailbox.kept.begin()->first.first == "/job:a;fffffffffffffffe;/job:b;edge_1_w");
    BOOST_TEST(EdgeKey("/job:a", ~uint64_t{1}, "/job:b", "edge_1_w") == mailbox.kept.begin()->first.first);
    BOOST_TEST(*(*Run(StrCat("_", host, "Recv"), {}, recv, {}, options))[0].data<float>() == 7);
    mailbox.kept.begin()->second.first = Tensor::Scalar<int32_t>(1);
    BOOST_TEST(Says(Run(StrCat("_", host, "Recv"), {}, recv, {}, options).status(), "received int32"));
    mailbox.kept.begin()->second = {Tensor(), true};
    BOOST_TEST(!(*Run(StrCat("_", host, "Recv"), {}, recv, {}, options))[0].valid());
    mailbox.kept.clear();
    BOOST_TEST(Says(Run(StrCat("_", host, "Recv"), {}, recv, {}, options).status(), "nobody sent"));
  }
  BOOST_TEST((Run("_Send", {kSeven}, names).status().code() == absl::StatusCode::kFailedPrecondition));
  BOOST_TEST((Run("_Recv", {}, recv).status().code() == absl::StatusCode::kFailedPrecondition));
}

// The expected texts are what TensorFlow's Assert prints.
BOOST_AUTO_TEST_CASE(summaries_are_those_of_assert_in_tensorflow) {
  const auto range = [](std::initializer_list<int64_t> dims) {
    Tensor t(DType::kInt64, TensorShape(dims));
    for (int64_t i = 0; i < t.num_elements(); ++i) t.data<int64_t>()[i] = i;
    return t;
  };
  const struct {
    Tensor t;
    int entries;
    const char* text;
  } cases[] = {
      {Tensor::Scalar<float>(1.5), 3, "1.5"},
      {range({5}), 3, "0 1 2..."},
      {range({3, 4}), 5, "[0 1 2 3][4...]..."},
      {range({3, 4}), -1, "[0 1 2 3][4 5 6 7][8 9 10 11]"},
      {range({3, 2, 2}), 4, "[[0 1][2 3]]..."},
      {range({3, 2, 2}), 3, "[[0 1][2...]]..."},
      {Tensor::Vector<bool>({true, false}), 3, "1 0"},
      {Tensor::Vector<std::string>({"a\nb", "x y\""}), 3, "a\\nb x y\\\""},
      {Tensor::Vector<float>({}), 3, ""},
      {Tensor(DType::kFloat, {2, 0}), 3, ""},
      {Tensor::Vector<uint8_t>({200}), 3, "200"},
      {Tensor::Vector<int8_t>({-3}), 3, "-3"},
      {range({2, 2}), 0, "..."},
      {Tensor::Vector<float>({1e20f}), 3, "1e+20"},
  };
  for (const auto& c : cases) BOOST_TEST(troupe::control::Summarize(c.t, c.entries) == c.text);
}

BOOST_AUTO_TEST_CASE(an_assert_that_fails_names_the_values) {
  BOOST_TEST(Run("Assert", {Tensor::Scalar<bool>(true), kSeven}, {}, {1}).ok());
  const absl::Status s =
      Run("Assert", {Tensor::Scalar<bool>(false), Tensor::Scalar("x ="), Tensor::Vector<int32_t>({1, 2, 3, 4})}, {},
          {2})
          .status();
  BOOST_TEST((s.code() == absl::StatusCode::kInvalidArgument));
  BOOST_TEST(Says(s, "assertion failed: [x =] [1 2 3...]"), s.ToString());
  BOOST_TEST(Says(Run("Assert", {Tensor::Vector<bool>({true}), kSeven}, {}, {1}).status(), "must be a scalar"));
}

BOOST_AUTO_TEST_CASE(abort_ends_the_step_only) {
  const absl::Status s = Run("Abort", {}, {{"error_msg", "enough"}}).status();
  BOOST_TEST((s.code() == absl::StatusCode::kAborted));
  BOOST_TEST(Says(s, "enough"));
  BOOST_TEST((Run("Abort", {}, {{"exit_without_error", true}}).status().code() == absl::StatusCode::kCancelled));
}

BOOST_AUTO_TEST_CASE(print_forwards_its_input_and_writes_to_the_stream_named) {
  BOOST_TEST((*Run("Print", {kSeven, kSeven}, {{"message", "seven: "}, {"first_n", 0}}, {1}))[0].raw() == kSeven.raw());
  const std::string path = "/tmp/troupe_print_v2_test_" + std::to_string(reinterpret_cast<uintptr_t>(&path)) + ".txt";
  for (int i = 0; i < 2; ++i)
    BOOST_TEST(Run("PrintV2", {Tensor::Scalar("line")}, {{"output_stream", "file://" + path}}).ok());
  std::ifstream in(path);
  BOOST_TEST(std::string(std::istreambuf_iterator<char>(in), {}) == "line\nline\n");
  std::remove(path.c_str());
  BOOST_TEST(Says(Run("PrintV2", {Tensor::Scalar("x")}, {{"output_stream", "nowhere"}}).status(),
                  "unknown output stream 'nowhere'"));
  BOOST_TEST(Says(Run("PrintV2", {Tensor::Scalar("x")}, {{"output_stream", "file:///no/such/dir/x"}}).status(),
                  "cannot open"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace control_ops_test
}  // namespace troupe
