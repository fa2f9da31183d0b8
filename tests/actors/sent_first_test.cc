// Of costly nodes that are ready, the one whose value another device waits for runs first.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <string>

#include "tests/common/check_ok.h"
#include "troupe/proto/config.pb.h"
#include "troupe/runtime.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

BOOST_AUTO_TEST_SUITE(sent_first)

// A chain of products stays on the device; a product that is ready when the second of the chain is
// goes to another device, directly or in another shape.
BOOST_AUTO_TEST_CASE(what_another_device_waits_for_does_not_wait_itself) {
  for (const bool reshaped : {false, true}) {
    RuntimeOptions options;
    options.threads = 1;
    options.cpu_devices = 2;
    auto runtime = Runtime::Start(options);
    REQUIRE_OK(runtime.status());
    const Scope root = Scope::NewRootScope(), here = root.WithDevice("/device:CPU:0");
    const Output x = ops::Placeholder(here.WithOpName("x"), DType::kFloat, {.shape = TensorShape({256, 256})});
    const Output first = ops::MatMul(here.WithOpName("first"), x, x);
    const Output sent = ops::MatMul(here.WithOpName("sent"), x, first);
    Output chain = first;
    for (int i = 0; i < 4; ++i) chain = ops::MatMul(here.WithOpName(StrCat("chain", i)), chain, x);
    const Output travels = reshaped ? ops::Reshape(here, sent, Tensor::Vector<int32_t>({-1})) : sent;
    const Output there = ops::Neg(root.WithOpName("there").WithDevice("/device:CPU:1"), travels);
    REQUIRE_OK(root.status());
    auto session = Session::Create({.runtime = *runtime});
    REQUIRE_OK(session.status());
    REQUIRE_OK((*session)->Extend(*root.graph()));
    Tensor ones(DType::kFloat, TensorShape({256, 256}));
    std::fill_n(ones.data<float>(), ones.num_elements(), 1.0f / 256);
    // The first steps find out what is costly.
    std::map<std::string, int64_t> start;
    for (int i = 0; i < 10; ++i) {
      std::vector<Tensor> out;
      proto::RunMetadata metadata;
      REQUIRE_OK((*session)->Run({.collect_stats = true}, {{x.name(), ones}}, {chain.name(), there.name()}, {}, &out,
                                 &metadata));
      for (const auto& device : metadata.step_stats().dev_stats()) {
        for (const auto& node : device.node_stats()) start[node.node_name()] = node.all_start_nanos();
      }
    }
    BOOST_REQUIRE(start.contains("sent"));
    BOOST_REQUIRE(start.contains("chain0"));
    BOOST_REQUIRE(start.contains("chain3"));
    BOOST_TEST(start["sent"] < start["chain0"]);
    BOOST_TEST(start["chain0"] < start["chain3"]);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace troupe
