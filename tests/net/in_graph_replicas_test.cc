// Replicas within one graph, over a cluster of processes that one client drives: ten towers of 100
// rows on five processes are one batch of 1000, by ring, by tree, and with variables on a parameter
// server.
#include <boost/test/unit_test.hpp>
#include <memory>

#include "tests/net/processes.h"
#include "tests/train/replica_model.h"

namespace troupe {
namespace in_graph_replicas_test {

using train::AllReduceOptions;
using train::InGraphOptions;

constexpr int kWorkers = 5;

std::unique_ptr<Process> Serve(const std::string& cluster, const std::string& job, int task) {
  return std::make_unique<Process>(std::vector<std::string>{"serve", "--cluster", cluster, "--job", job, "--task",
                                                            StrCat(task), "--threads", "1", "--heartbeat", "1000"});
}

BOOST_AUTO_TEST_SUITE(in_graph_replicas)

BOOST_AUTO_TEST_CASE(ten_replicas_on_five_processes_are_one_batch) {
  const std::string cluster = LocalCluster(kWorkers);
  std::vector<std::unique_ptr<Process>> processes;
  processes.push_back(Serve(cluster, "ps", 0));
  for (int w = 0; w < kWorkers; ++w) processes.push_back(Serve(cluster, "worker", w));
  const HostPort server = AddressIn(cluster, "ps", 0);
  for (int w = 0; w < kWorkers; ++w) BOOST_REQUIRE(Await([&] { return HealthAt(server, {"worker", w}) == "alive"; }));
  SessionOptions session;
  session.target = StrCat("troupe://", server.ToString());
  session.operation_timeout_ms = 60'000;
  InGraphOptions options;
  for (int r = 0; r < testing::kTowers; ++r)
    options.devices.push_back(StrCat("/job:worker/task:", r % kWorkers, "/device:CPU:0"));
  const testing::Trace expected = testing::OneBatch(DType::kFloat);
  for (const AllReduceOptions::Algorithm algorithm : {AllReduceOptions::kRing, AllReduceOptions::kTree}) {
    options.all_reduce.algorithm = algorithm;
    testing::CheckTowers(session, options, DType::kFloat, "/job:worker/task:0", expected);
  }
  options.variables = InGraphOptions::kShared;
  testing::CheckTowers(session, options, DType::kFloat, "/job:ps/task:0", expected);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace in_graph_replicas_test
}  // namespace troupe
