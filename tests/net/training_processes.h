// A training run over several processes on the loopback interface: servers, if any, and workers
// that are examples/cluster_mnist.
//
// Thread rule: one thread.
#ifndef TROUPE_TESTS_NET_TRAINING_PROCESSES_H_
#define TROUPE_TESTS_NET_TRAINING_PROCESSES_H_

#ifdef TROUPE_CLUSTER_MNIST

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/common/folder.h"
#include "tests/net/processes.h"

namespace troupe {

// The text or number behind "name": in a line that is a JSON object; "" when it is not there.
inline std::string Field(const std::string& line, const std::string& name) {
  const std::string key = StrCat("\"", name, "\": ");
  const size_t at = line.find(key);
  if (at == std::string::npos) return "";
  const size_t begin = at + key.size();
  if (line[begin] == '"') return line.substr(begin + 1, line.find('"', begin + 1) - begin - 1);
  return line.substr(begin, line.find_first_of(",}", begin) - begin);
}
inline int64_t Whole(const std::string& line, const std::string& name) { return std::atoll(Field(line, name).c_str()); }

struct Training {
  // All workers are started, or the first so many.
  Training(int servers, int workers, std::vector<std::string> more, int started = -1) : options(std::move(more)) {
    const std::vector<int> ports = FreePorts(servers + workers);
    for (int i = 0; i < servers + workers; ++i) {
      const std::string job = i == 0 && servers > 0 ? "ps=" : i != servers ? "," : servers > 0 ? ";worker=" : "worker=";
      StrAppend(&cluster, job, "127.0.0.1:", ports[static_cast<size_t>(i)]);
    }
    ps.resize(static_cast<size_t>(servers));
    worker.resize(static_cast<size_t>(workers));
    for (int p = 0; p < servers; ++p) Serve(p);
    for (int w = 0; w < (started < 0 ? workers : started); ++w) Work(w);
  }
  void Serve(int task) {
    ps[static_cast<size_t>(task)] = std::make_unique<Process>(std::vector<std::string>{
        "serve", "--cluster", cluster, "--job", "ps", "--task", StrCat(task), "--threads", "1", "--heartbeat", "1000"});
  }
  void Work(int task) {
    std::vector<std::string> words{"--cluster",   cluster,     "--task",    StrCat(task), "--model_dir",
                                   folder.path(), "--json",    "--threads", "1",          "--heartbeat",
                                   "1000",        "--give_up", "60000"};
    words.insert(words.end(), options.begin(), options.end());
    worker[static_cast<size_t>(task)] = std::make_unique<Process>(words, TROUPE_CLUSTER_MNIST);
  }
  void Kill(std::unique_ptr<Process>& process) {
    process->Signal(SIGKILL);
    BOOST_TEST(process->Wait() == -SIGKILL);
  }
  // As `kill` does it.
  void Stop(std::unique_ptr<Process>& process) {
    process->Signal(SIGTERM);
    BOOST_TEST(process->Wait() == 0);
  }
  // The next line of the chief's.
  std::string Next() {
    const std::string line = worker[0]->Line();
    BOOST_REQUIRE_MESSAGE(line != "",
                          "the chief is silent: " << worker[0]->errors() << (ps.empty() ? "" : ps[0]->errors()));
    const std::string event = Field(line, "event");
    if (event == "step") losses[Whole(line, "step")].push_back(Field(line, "loss"));
    if (event == "begin") begins.push_back(line);
    if (event == "joined" || event == "left" || event == "gone")
      changes.push_back(StrCat(event, " ", Field(line, "worker")));
    if (event == "end") end = line;
    return line;
  }
  // Until a worker has come or gone: "joined 2". The chief goes on meanwhile, but not far: it is
  // read slowly.
  void UntilChange(const std::string& change) {
    while (std::find(changes.begin(), changes.end(), change) == changes.end()) {
      Next();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    changes.clear();
  }
  // Until the model has had so many updates.
  void Until(int64_t step) {
    while (Whole(Next(), "step") < step) {
    }
  }
  // Until the end, of all workers but some.
  void ToTheEnd(const std::vector<int>& but = {}) {
    while (end.empty()) Next();
    for (int w = 0; w < static_cast<int>(worker.size()); ++w) {
      if (std::find(but.begin(), but.end(), w) != but.end()) continue;
      auto& process = worker[static_cast<size_t>(w)];
      if (process == nullptr) continue;
      BOOST_TEST(process->Wait() == 0, "worker " << w << ": " << process->errors());
    }
  }

  const testing::Folder folder;
  const std::vector<std::string> options;
  std::string cluster, end;
  std::vector<std::unique_ptr<Process>> ps, worker;
  std::map<int64_t, std::vector<std::string>> losses;  // by step, as they were printed
  std::vector<std::string> begins;                     // of the chief
  std::vector<std::string> changes;                    // "gone 2", since UntilChange
};

// What so many steps with nobody lost come to.
struct UndisturbedRun {
  UndisturbedRun(int servers, int workers, const std::vector<std::string>& options, size_t steps) {
    Training t(servers, workers, options);
    t.ToTheEnd();
    hash = Field(t.end, "hash");
    losses = t.losses;
    BOOST_TEST(hash.size() == 16u);
    BOOST_TEST(losses.size() == steps);
    BOOST_TEST(Field(t.end, "recoveries") == "0");
  }
  void Check(const Training& t) const {
    BOOST_TEST(Field(t.end, "hash") == hash);
    for (const auto& [step, told] : t.losses) {
      for (const std::string& loss : told) BOOST_TEST(loss == losses.at(step)[0], "step " << step);
    }
  }
  std::string hash;
  std::map<int64_t, std::vector<std::string>> losses;
};

}  // namespace troupe

#endif  // TROUPE_CLUSTER_MNIST

#endif  // TROUPE_TESTS_NET_TRAINING_PROCESSES_H_
