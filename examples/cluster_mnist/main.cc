// Trains on handwritten digits with several processes, any of which may be killed at any time.
//
//   troupe serve --cluster CLUSTER --job ps --task 0 &
//   cluster_mnist --cluster CLUSTER --job worker --task 0 --steps 100 --model_dir RUN &
//   cluster_mnist --cluster CLUSTER --job worker --task 1 --steps 100 --model_dir RUN
//
// CLUSTER is one of: flags, 'ps=localhost:2222;worker=localhost:2223,localhost:2224'; a file with a
// ClusterDef (text), or with such flags (ClusterSpec::FromFlagsOrFile). The parameter servers are
// processes of `troupe serve`, and each worker is a process of this program. The worker 0 is the
// chief: it gives the variables their values, adds up what the workers send, saves, and restores.
// With --mode allreduce there are no parameter servers.
//
// Flags. All workers are given the same ones but for --task:
//   --cluster C         as above
//   --job worker        no other is known
//   --task I            number of this worker
//   --mode sync         each step is one update, by the mean of the gradients of all workers, added
//                       in the order of their numbers; the same seed gives the same bits
//          backup       as sync, but of the first --take workers that are done with a step; the
//                       gradients of the others are dropped, and counted
//          async        each worker updates by itself; a step is the update of any worker
//          allreduce    as sync, but each worker has a copy of the variables, and gradients are
//                       averaged by all-reduce; parameter servers have nothing to do, and need not
//                       be there. The chief runs one graph that has the nets of all workers, each of
//                       which reads its images itself
//   --all_reduce ring   allreduce: how; or tree
//   --take M            backup: of so many workers; 0 = all but one
//   --parts P           sync: a step has so many gradients, of --batch images each, which are computed
//                       by whoever is there: workers may be started at any time, and leave, in order
//                       by SIGTERM. 0 = one of each worker, all of which must be there
//   --live_replicas     sync, backup: each parameter server has a replica of its variables at the
//                       next one, from where they come back when it is lost; needs two of them
//   --steps N           the run ends when the model has had so many updates
//   --batch B           images of a worker, or part, in a step
//   --seed S            of all that is drawn; at least 1
//   --learning_rate R   else the net's own
//   --model_dir DIR     of the checkpoints; all processes see it under the same name. "": nothing is
//                       saved, and a lost parameter server begins the run anew
//   --save_steps K      updates between checkpoints; there is one before the first step, too
//   --report_steps K    updates between the lines of --json, 1 = each
//   --net small         one hidden layer of 32 units; e8: the conv net E8 of examples/mnist
//   --data DIR          with the four IDX files of MNIST; "": the digits of --digits
//   --digits FILE       of 8x8 pixels, used without --data; else those of examples/mnist
//   --threads T         that compute; 0 = one per core
//   --heartbeat MS      between two heartbeats, as of `troupe serve`
//   --give_up MS        how long a lost process is waited for
//   --await_all         the process begins when those of all other tasks are there, not only the
//                       parameter servers
//   --trace FILE        of what ran when in this process's steps and on the servers for them, for
//                       chrome://tracing; `troupe trace` puts those of several workers together
//   --trace_from N      the first update of it; 10 without it
//   --trace_steps K     so many updates; 5 without it
//   --json              output is one JSON object a line; else the same as text (report.h)
//
// A process that is started again with the same arguments goes on by itself, whichever it is. Exit
// status: 0 when step N was reached, 1 for a failure (told on stderr), 2 for a wrong command line.
// The chief waits for the other workers at the end, so the parameter servers may be stopped when it
// has ended.
//
// What it prints, line by line: report.h.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <optional>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "examples/common/training.h"
#include "examples/mnist/data.h"
#include "net.h"
#include "report.h"
#include "troupe/server.h"
#include "troupe/train/async_replicas.h"
#include "troupe/train/global_step.h"
#include "troupe/train/replica_devices.h"
#include "troupe/train/sync_replicas.h"
#include "troupe/train/train_mirrored.h"
#include "troupe/train/train_together.h"

namespace {

using namespace troupe;  // NOLINT
using cluster_mnist::Net;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

struct Flags {
  std::string cluster, job = "worker", mode = "sync", model_dir, net = "small", data, digits = TROUPE_DIGITS_FILE,
                       all_reduce = "ring";
  int task = -1, take = 0, parts = 0, threads = 0, heartbeat = 0;
  int64_t steps = 100, batch = 100, seed = 1, save_steps = 100, report_steps = 1, give_up = 600'000;
  train::TracePolicy trace;
  double learning_rate = 0;
  bool json = false, await_all = false, live_replicas = false;
};

std::vector<ClusterTask> TasksOf(const ClusterSpec& cluster, const std::string& job) {
  std::vector<ClusterTask> tasks;
  for (const auto& [task, address] : cluster.tasks()) {
    if (task.job == job) tasks.push_back(task);
  }
  return tasks;
}

// SIGTERM has come; the next one ends the process.
std::atomic<bool> told_to_leave{false};
static_assert(std::atomic<bool>::is_always_lock_free);
void LeaveAtSigterm() {
  struct sigaction action {};
  action.sa_handler = [](int) { told_to_leave = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGTERM, &action, nullptr);
}

// Whether other tasks are there, as this server sees them. It is asked once for all of them: each
// time costs as much as there are tasks. For one thread.
class Presence {
 public:
  explicit Presence(const Server& server) : server_(server) {}
  bool Has(const ClusterTask& task) {
    const Clock::time_point now = Clock::now();
    if (!asked_ || now - asked_at_ > milliseconds(20)) {
      asked_ = server_.status();
      asked_at_ = now;
    }
    if (!asked_->ok()) return true;
    for (const TaskStatus& other : (*asked_)->others) {
      if (other.task == task) return other.health == TaskHealth::kAlive || other.health == TaskHealth::kSuspected;
    }
    return true;
  }

 private:
  const Server& server_;
  std::optional<absl::StatusOr<ServerStatus>> asked_;
  Clock::time_point asked_at_;
};

// This process's part in the training.
class Part {
 public:
  explicit Part(const Flags& flags)
      : flags_(flags),
        report_({.json = flags.json,
                 .task = flags.task,
                 .steps = flags.steps,
                 .report_steps = flags.report_steps,
                 .batch = flags.batch}) {}
  absl::Status Run();

 private:
  absl::Status Build(int servers, int workers);
  absl::Status BuildMirrored(int workers);
  absl::StatusOr<train::TrainingReport> Train(const train::TrainingOptions& training);
  absl::StatusOr<Feeds> FeedsOf(int64_t step, int part);
  absl::StatusOr<Feeds> RateOf(int64_t step) const;
  absl::Status AtEnd(Session& session);
  absl::Status AwaitTasks(const Server& server, const std::vector<ClusterTask>& tasks) const;

  const Flags& flags_;
  cluster_mnist::Report report_;
  std::shared_ptr<const mnist::Digits> digits_;
  Scope root_ = Scope::NewRootScope();
  Net net_;
  Output rate_, step_;
  std::unique_ptr<train::Adam> adam_;
  std::optional<train::SyncReplicas> sync_;
  std::optional<train::AsyncReplicas> async_;
  std::optional<train::MirroredTraining> mirrored_;
  std::optional<cluster_mnist::Share> share_;
  std::vector<Variable> variables_;
};

// [graph]
absl::Status Part::Build(int servers, int workers) {
  const Scope on = root_.WithDeviceFunction(
      train::ReplicaDevices({.ps_tasks = servers, .worker_device = StrCat("/job:worker/task:", flags_.task)}));
  TROUPE_ASSIGN_OR_RETURN(net_, cluster_mnist::BuildNet(on, flags_.net, flags_.seed, cluster_mnist::FedInputs(on)));
  if (flags_.learning_rate > 0) net_.first_rate = flags_.learning_rate;
  rate_ = ops::Placeholder(on.WithOpName("learning_rate"), DType::kFloat, {.shape = TensorShape()});
  adam_ = std::make_unique<train::Adam>(rate_);
  const Variable step = train::GetOrCreateGlobalStep(on);
  const auto grads = adam_->ComputeGradients(on, net_.loss);
  if (flags_.mode == "async") {
    async_.emplace(on, *adam_, grads, net_.loss, step,
                   train::AsyncReplicasOptions{.workers = workers, .worker = flags_.task});
  } else {
    const int take = flags_.mode == "sync" ? 0 : flags_.take > 0 ? flags_.take : std::max(1, workers - 1);
    sync_.emplace(on, *adam_, grads, net_.loss, step,
                  train::SyncReplicasOptions{.workers = workers,
                                             .worker = flags_.task,
                                             .take = take,
                                             .parts = flags_.parts,
                                             .live_replicas = flags_.live_replicas});
  }
  variables_ = VariablesIn(root_, kGlobalVariables);
  return root_.status();
}
// [/graph]

// [mirrored]
absl::Status Part::BuildMirrored(int workers) {
  const Scope chief = root_.WithDevice("/job:worker/task:0");
  step_ = ops::Placeholder(chief.WithOpName("step"), DType::kInt64, {.shape = TensorShape()});
  rate_ = ops::Placeholder(chief.WithOpName("learning_rate"), DType::kFloat, {.shape = TensorShape()});
  const Output keep = ops::Placeholder(chief.WithOpName("keep"), DType::kFloat, {.shape = TensorShape()});
  cluster_mnist::Source source{flags_.data, flags_.digits, flags_.batch, flags_.seed, workers};
  const auto tower = [&](const Scope& on, int replica) {
    source.worker = replica;
    const absl::StatusOr<Net> net =
        cluster_mnist::BuildNet(on, flags_.net, flags_.seed, cluster_mnist::ReadInputs(on, step_, keep, source));
    if (!net.ok()) on.UpdateStatus(net.status());
    if (replica == 0 && net.ok()) net_ = *net;
    return net.ok() ? net->loss : Output();
  };
  const auto adam = [&](const Scope&) { return std::make_unique<train::Adam>(rate_); };
  train::InGraphOptions options;
  for (int w = 0; w < workers; ++w) options.devices.push_back(StrCat("/job:worker/task:", w));
  options.all_reduce.algorithm =
      flags_.all_reduce == "ring" ? train::AllReduceOptions::kRing : train::AllReduceOptions::kTree;
  const Variable step = train::GetOrCreateGlobalStep(chief);
  const train::InGraphReplicas replicas(chief, tower, adam, step, options);
  mirrored_.emplace(chief, replicas, step);
  if (flags_.learning_rate > 0) net_.first_rate = flags_.learning_rate;
  variables_ = VariablesIn(root_, kGlobalVariables);
  return root_.status();
}
// [/mirrored]

absl::StatusOr<Feeds> Part::FeedsOf(int64_t step, int part) {
  const Feeds::value_type keep{net_.keep.name(), Tensor::Scalar(static_cast<float>(net_.train_keep))};
  if (mirrored_) return Feeds{{step_.name(), Tensor::Scalar(step)}, keep};
  Tensor images, labels;
  share_->Take(step, part, &images, &labels);
  const Tensor noise = Tensor::Vector<int64_t>({flags_.seed * 1000 + part, step});
  return Feeds{{net_.images.name(), std::move(images)},
               {net_.labels.name(), std::move(labels)},
               {net_.noise.name(), noise},
               keep};
}

absl::StatusOr<Feeds> Part::RateOf(int64_t step) const {
  return Feeds{{rate_.name(), Tensor::Scalar(static_cast<float>(net_.LearningRate(step)))}};
}

// Accuracy on the test images, and the hash of all variables (FNV-1a).
absl::Status Part::AtEnd(Session& session) {
  constexpr int64_t kPiece = 500;
  double right = 0;
  const int64_t n = digits_->test.size();
  for (int64_t at = 0; at < n; at += kPiece) {
    const int64_t end = std::min(at + kPiece, n);
    std::vector<Tensor> out;
    TROUPE_RETURN_IF_ERROR(session.Run({{net_.images, digits_->test.Images(at, end)},
                                        {net_.labels, digits_->test.Labels(at, end)},
                                        {net_.noise, Tensor::Vector<int64_t>({0, 0})},
                                        {net_.keep, Tensor::Scalar(1.0f)}},
                                       {net_.accuracy}, {}, &out));
    right += static_cast<double>(out[0].scalar<float>()) * static_cast<double>(end - at);
  }
  std::vector<Tensor> values;
  TROUPE_RETURN_IF_ERROR(session.Run({}, variables_, {}, &values));
  uint64_t hash = 0xcbf29ce484222325;
  for (const Tensor& t : values) {
    const auto* const bytes = static_cast<const unsigned char*>(t.raw());
    for (size_t i = 0; i < t.bytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3;
  }
  report_.SetResult(right / static_cast<double>(n), hash);
  return absl::OkStatus();
}

// Until all are there, or this worker is told to leave.
absl::Status Part::AwaitTasks(const Server& server, const std::vector<ClusterTask>& tasks) const {
  const auto end = Clock::now() + milliseconds(flags_.give_up);
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
    const absl::Status there = server.AwaitTasks(tasks, std::clamp(left, milliseconds(1), milliseconds(500)));
    if (!absl::IsDeadlineExceeded(there) || Clock::now() >= end) return there;
    if (told_to_leave) return absl::OkStatus();
  }
}

absl::StatusOr<train::TrainingReport> Part::Train(const train::TrainingOptions& training) {
  if (mirrored_) return train::TrainMirrored(root_, *mirrored_, flags_.task, training);
  return sync_ ? train::TrainTogether(root_, *sync_, training) : train::TrainApart(root_, *async_, training);
}

absl::Status Part::Run() {
  if (flags_.parts > 0 && flags_.task != 0) LeaveAtSigterm();
  ServerOptions options;
  TROUPE_ASSIGN_OR_RETURN(options.spec.cluster, ClusterSpec::FromFlagsOrFile(flags_.cluster));
  options.spec.task = {"worker", flags_.task};
  const std::vector<ClusterTask> servers = TasksOf(options.spec.cluster, "ps"),
                                 workers = TasksOf(options.spec.cluster, "worker");
  const bool mirrored = flags_.mode == "allreduce";
  if (servers.empty() && !mirrored) return InvalidArgument("the cluster has no parameter servers (job ps)");
  options.runtime.threads = flags_.threads;
  if (flags_.heartbeat > 0) options.heartbeat = HeartbeatPolicy::Of(milliseconds(flags_.heartbeat));
  TROUPE_ASSIGN_OR_RETURN(digits_, cluster_mnist::DigitsOf(flags_.data, flags_.digits));
  if (flags_.parts > 0 && flags_.mode != "sync") return InvalidArgument("--parts are of --mode sync");
  if (flags_.live_replicas && flags_.mode != "sync" && flags_.mode != "backup")
    return InvalidArgument("--live_replicas are of --mode sync and backup");
  // The numbers of those that there may be can have gaps.
  const int count = flags_.parts > 0 && !workers.empty() ? workers.back().index + 1 : static_cast<int>(workers.size());
  share_.emplace(&digits_->train, flags_.batch, flags_.parts > 0 ? flags_.parts : count, flags_.seed);
  TROUPE_RETURN_IF_ERROR(mirrored ? BuildMirrored(count) : Build(static_cast<int>(servers.size()), count));
  TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server, Server::Start(options));
  report_.Ready(server->listens_at());
  // In an all-reduce nobody waits here: the chief looks for the others unless all is done, and the
  // others for the chief.
  const std::vector<ClusterTask> all_others;
  if (!mirrored || flags_.await_all)
    TROUPE_RETURN_IF_ERROR(AwaitTasks(*server, flags_.await_all ? all_others : servers));
  if (told_to_leave) return absl::OkStatus();
  Presence presence(*server);
  // [train]
  train::TrainingOptions training;
  training.session.runtime = server->runtime();
  training.last_step = flags_.steps;
  training.checkpoints = {.folder = flags_.model_dir, .every_steps = flags_.save_steps};
  training.trace = flags_.trace;
  training.give_up = milliseconds(flags_.give_up);
  training.feeds = [this](int64_t step) { return FeedsOf(step, flags_.task); };
  training.part_feeds = [this](int64_t step, int part) { return FeedsOf(step, part); };
  training.is_there = [&](int worker) { return presence.Has({"worker", worker}); };
  training.leaves = [] { return told_to_leave.load(); };
  training.update_feeds = [this](int64_t step) { return RateOf(step); };
  training.on_event = [this](const train::TrainingEvent& event) { report_.Tell(event); };
  training.at_end = [this](Session& session) { return AtEnd(session); };
  const absl::StatusOr<train::TrainingReport> report = Train(training);
  // [/train]
  TROUPE_RETURN_IF_ERROR(report.status());
  report_.End(*report);
  // The others may have gone already: that they do not answer is no failure.
  server->Stop(milliseconds(2000)).IgnoreError();
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Trains on handwritten digits with several processes", "cluster_mnist");
  app.add_option("--cluster", flags.cluster, "addresses as flags or in a file")->required();
  app.add_option("--job", flags.job, "of this process")->check(CLI::IsMember({"worker"}))->capture_default_str();
  app.add_option("--task", flags.task, "number of this worker")
      ->required()
      ->check(CLI::Range(0, ClusterSpec::kMostIndex));
  app.add_option("--mode", flags.mode, "of the updates")
      ->check(CLI::IsMember({"sync", "backup", "async", "allreduce"}))
      ->capture_default_str();
  app.add_option("--all_reduce", flags.all_reduce, "allreduce: how gradients are averaged")
      ->check(CLI::IsMember({"ring", "tree"}))
      ->capture_default_str();
  app.add_option("--take", flags.take, "backup: gradients of an update; 0 = of all workers but one")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--parts", flags.parts, "sync: gradients of a step, of whoever is there; 0 = one of each worker")
      ->check(CLI::Range(0, train::SyncReplicasOptions::kMostParts));
  app.add_flag("--live_replicas", flags.live_replicas, "sync, backup: each server has a replica at the next one");
  app.add_option("--steps", flags.steps, "updates")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--batch", flags.batch, "images of a worker, or part, in a step")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--seed", flags.seed, "of all that is drawn")->check(CLI::Range(1, 1 << 30))->capture_default_str();
  app.add_option("--learning_rate", flags.learning_rate, "else the net's own")->check(CLI::PositiveNumber);
  app.add_option("--model_dir", flags.model_dir, "folder of the checkpoints, the same for all processes");
  app.add_option("--save_steps", flags.save_steps, "updates between checkpoints")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--report_steps", flags.report_steps, "updates between lines")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--net", flags.net, "small or e8")->check(CLI::IsMember({"small", "e8"}))->capture_default_str();
  app.add_option("--data", flags.data, "folder with the four IDX files of MNIST");
  app.add_option("--digits", flags.digits, "the 8x8 digits used without --data");
  app.add_option("--threads", flags.threads, "that compute; 0 = one per core")->check(CLI::Range(0, 1024));
  app.add_option("--heartbeat", flags.heartbeat, "milliseconds between two heartbeats")
      ->check(CLI::Range(10, 86400000));
  app.add_option("--give_up", flags.give_up, "milliseconds for which a lost process is waited for")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--await_all", flags.await_all, "begin when the processes of all other tasks are there");
  app.add_option("--trace", flags.trace.file, "file of what ran when, for chrome://tracing");
  app.add_option("--trace_from", flags.trace.first, "the first update of it")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--trace_steps", flags.trace.steps, "so many updates")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--json", flags.json, "print one JSON object a line");
  // Standard output has the lines.
  spdlog::set_default_logger(spdlog::stderr_logger_mt("cluster_mnist"));
  return example::Main(&app, argc, argv, [&] { return Part(flags).Run(); });
}
