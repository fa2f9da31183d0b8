#include "actors/train/server_recovery.h"

#include <algorithm>

#include "troupe/checkpoint.h"
#include "troupe/files.h"

namespace troupe::train {
namespace {

int64_t NumberIn(const Tensor& t) { return t.dtype() == DType::kInt64 ? t.scalar<int64_t>() : t.scalar<int32_t>(); }

// Which servers have a mark.
absl::StatusOr<std::vector<bool>> Marked(Session& session, const ServerState& state, const RunOptions& run = {}) {
  Names names;
  for (const ServerState::Server& s : state.servers()) names.push_back(s.has_mark.name());
  std::vector<Tensor> out;
  TROUPE_RETURN_IF_ERROR(session.Run(run, {}, names, {}, &out, nullptr));
  std::vector<bool> marked;
  for (const Tensor& t : out) marked.push_back(t.scalar<bool>());
  return marked;
}

// The steps of live replicas, by the server that they are of.
absl::StatusOr<std::vector<int64_t>> Replicas(Session& session, const ServerState& state) {
  Names names;
  for (const ServerState::Server& s : state.servers()) names.push_back(s.replica.name());
  std::vector<Tensor> out;
  TROUPE_RETURN_IF_ERROR(session.Run({}, names, {}, &out));
  std::vector<int64_t> steps;
  for (const Tensor& t : out) steps.push_back(NumberIn(t));
  return steps;
}

SaverOptions OptionsOf(const CheckpointPolicy& policy) {
  SaverOptions options;
  options.max_to_keep = policy.max_to_keep;
  options.sharded = true;
  options.session_state = false;
  options.by_nodes = true;
  return options;
}

absl::Status RunAll(Session& session, const std::vector<Operation>& ops) {
  return ops.empty() ? absl::OkStatus() : session.Run({}, {}, ops, nullptr);
}

}  // namespace

absl::StatusOr<std::optional<int64_t>> StepOfServers(Session& session, const ServerState& state,
                                                     const RunOptions& run) {
  TROUPE_ASSIGN_OR_RETURN(const std::vector<bool> marked, Marked(session, state, run));
  if (std::find(marked.begin(), marked.end(), false) != marked.end()) return std::nullopt;
  Names names;
  for (const ServerState::Server& s : state.servers()) names.push_back(s.mark.name());
  std::vector<Tensor> out;
  TROUPE_RETURN_IF_ERROR(session.Run(run, {}, names, {}, &out, nullptr));
  const bool whole = std::all_of(out.begin(), out.end(), [](const Tensor& t) { return NumberIn(t) >= 0; });
  if (!whole) return std::nullopt;
  // Where a server has just begun to be restored, there is a mark of -1, and no step yet.
  TROUPE_RETURN_IF_ERROR(session.Run(run, {}, {state.global_step().name()}, {}, &out, nullptr));
  return NumberIn(out[0]);
}

ServerRecovery::ServerRecovery(const Scope& root, const MirroredTraining& mirrors, const CheckpointPolicy& policy)
    : state_(mirrors.state()), policy_(policy), each_alone_(false), mirrors_(&mirrors), init_(mirrors.initializer()) {
  if (!policy.folder.empty()) saver_ = Saver(root, OptionsOf(policy));
}

ServerRecovery::ServerRecovery(const Scope& root, const ServerState& state, const CheckpointPolicy& policy,
                               bool each_alone)
    : state_(state),
      policy_(policy),
      each_alone_(each_alone),
      mirrors_(nullptr),
      init_(GlobalVariablesInitializer(root)) {
  if (policy.folder.empty()) return;
  const SaverOptions options = OptionsOf(policy);
  saver_ = Saver(root, options);
  for (const ServerState::Server& s : state.servers()) {
    if (!each_alone) break;
    std::vector<Saved> its;
    for (const Variable& v : s.variables) its.emplace_back(v);
    of_server_.emplace_back(root, its, options);
  }
}

absl::StatusOr<ServerRecovery::Found> ServerRecovery::Ask(Session& session) const {
  Found found;
  TROUPE_ASSIGN_OR_RETURN(found.whole, Marked(session, state_));
  found.marks.resize(found.whole.size(), -1);
  if (state_.live_replicas()) {
    TROUPE_ASSIGN_OR_RETURN(found.replicas, Replicas(session, state_));
  }
  Names names;
  for (size_t i = 0; i < found.whole.size(); ++i) {
    if (found.whole[i]) names.push_back(state_.servers()[i].mark.name());
  }
  if (names.empty()) return found;
  std::vector<Tensor> out;
  TROUPE_RETURN_IF_ERROR(session.Run({}, names, {}, &out));
  names.clear();
  for (size_t i = 0, next = 0; i < found.whole.size(); ++i) {
    if (!found.whole[i]) continue;
    found.marks[i] = NumberIn(out[next++]);
    found.whole[i] = found.marks[i] >= 0;
    // One replica alone has no mirrors, and nobody to tell what it has reached.
    const Variable& reached = state_.servers()[i].reached;
    if (found.whole[i] && reached.handle().valid()) names.push_back(reached.name());
  }
  if (!names.empty()) TROUPE_RETURN_IF_ERROR(session.Run({}, names, {}, &out));
  for (size_t i = 0; i < names.size(); ++i) found.reached = std::max(found.reached, NumberIn(out[i]));
  // The first server has the global step; not when it has just begun to be restored.
  if (found.whole[0]) {
    TROUPE_ASSIGN_OR_RETURN(const Tensor step, session.Get(state_.global_step()));
    found.step = NumberIn(step);
  }
  found.all = std::find(found.whole.begin(), found.whole.end(), false) == found.whole.end();
  return found;
}

// All servers are whole: an update that has broken off is taken back, or kept. False when their
// marks are not those of one step, as when several processes took themselves for the chief.
absl::StatusOr<bool> ServerRecovery::Settle(Session& session, const Found& found) const {
  if (each_alone_) return true;
  std::vector<Operation> undo, keep;
  for (size_t i = 0; i < found.marks.size(); ++i) {
    const ServerState::Server& s = state_.servers()[i];
    if (found.marks[i] == found.step) {
      undo.push_back(s.undo);
    } else if (found.marks[i] == found.step - 1) {
      keep.push_back(s.keep);
    } else {
      return false;
    }
  }
  TROUPE_RETURN_IF_ERROR(RunAll(session, undo));
  const auto other = [&](int64_t replica) { return replica != found.step; };
  if (std::any_of(found.replicas.begin(), found.replicas.end(), other)) TROUPE_RETURN_IF_ERROR(Replicate(session));
  TROUPE_RETURN_IF_ERROR(RunAll(session, keep));
  return true;
}

// Before anything is kept: what is there then, all servers can be brought to.
absl::Status ServerRecovery::Replicate(Session& session) const {
  std::vector<Operation> replicate;
  for (const ServerState::Server& s : state_.servers()) {
    if (state_.live_replicas()) replicate.push_back(s.replicate);
  }
  return RunAll(session, replicate);
}

// "" when there is none.
absl::StatusOr<std::string> ServerRecovery::NewestPath() const {
  if (policy_.folder.empty()) return "";
  absl::StatusOr<std::string> newest = LatestCheckpoint(policy_.folder);
  // A list that names a checkpoint which has gone is no fresh start.
  if (absl::IsNotFound(newest.status()) && !files::Exists(files::Join(policy_.folder, "checkpoint"))) return "";
  return newest;
}

absl::StatusOr<ServerRecovery::Checkpoint> ServerRecovery::Newest() const {
  Checkpoint newest;
  TROUPE_ASSIGN_OR_RETURN(newest.path, NewestPath());
  if (newest.path.empty()) return newest;
  TROUPE_ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(newest.path));
  TROUPE_ASSIGN_OR_RETURN(const Tensor step, reader->Read(state_.global_step().variable_name()));
  if (step.rank() != 0 || (step.dtype() != DType::kInt64 && step.dtype() != DType::kInt32))
    return DataLoss(newest.path, ": its global step is ", step.TypeAndShape());
  newest.step = NumberIn(step);
  return newest;
}

absl::Status ServerRecovery::RestoreOnly(Session& session, const std::string& checkpoint) const {
  Saver saver = saver_;
  return saver.Restore(session, checkpoint);
}

// Some mirrors are whole: they are brought to one step, and the others are given what they have.
// False when none is whole, or when their marks are not those of one step.
absl::StatusOr<bool> ServerRecovery::Fill(Session& session, const Found& found, Begun* begun) const {
  const size_t n = found.whole.size();
  // Where the global step is lost, it is what one of the others has reached: all had been updated.
  const int64_t step = found.whole[0] ? found.step : found.reached;
  if (step < 0) return false;
  std::vector<Operation> undo, keep;
  size_t left = n;
  for (size_t i = 0; i < n; ++i) {
    const ServerState::Server& s = state_.servers()[i];
    if (!found.whole[i]) {
      keep.push_back(s.keep);
      begun->filled += i > 0;
      continue;
    }
    left = std::min(left, i);
    if (found.marks[i] == step) {
      undo.push_back(s.undo);
    } else if (found.marks[i] == step - 1) {
      keep.push_back(s.keep);
    } else {
      return false;
    }
  }
  TROUPE_RETURN_IF_ERROR(RunAll(session, undo));
  for (size_t k = 1; k < n; ++k) {
    const size_t i = (left + k) % n;
    if (!found.whole[i]) TROUPE_RETURN_IF_ERROR(RunAll(session, {mirrors_->fills()[i]}));
  }
  if (!found.whole[0]) {
    TROUPE_RETURN_IF_ERROR(
        session.Run({{mirrors_->fed_step(), Tensor::Scalar(step)}}, {}, {mirrors_->set_step()}, nullptr));
  }
  TROUPE_RETURN_IF_ERROR(RunAll(session, keep));
  begun->step = step;
  return true;
}

// Servers are lost whose replicas are of one step: they are given these, and the others are brought
// to that step. False when a replica is missing, or they are of several steps, as when servers and
// those that held their replicas were lost together.
absl::StatusOr<bool> ServerRecovery::FillFromReplicas(Session& session, const Found& found, Begun* begun) const {
  int64_t step = -1;
  std::vector<Operation> fill, undo, keep;
  const size_t n = found.whole.size();
  for (size_t i = 0; i < n; ++i) {
    if (found.whole[i]) continue;
    const int64_t its = found.replicas[i];
    if (its < 0 || (step >= 0 && its != step)) return false;
    step = its;
    fill.push_back(state_.servers()[i].fill);
    keep.push_back(state_.servers()[i].keep);
  }
  // Done, an update is in the global step before it is in any replica.
  if (found.whole[0] && step != found.step && step != found.step - 1) return false;
  for (size_t i = 0; i < n; ++i) {
    if (!found.whole[i]) continue;
    if (found.marks[i] == step) {
      undo.push_back(state_.servers()[i].undo);
    } else if (found.marks[i] == step - 1) {
      keep.push_back(state_.servers()[i].keep);
    } else {
      return false;
    }
  }
  // Servers that are lost have no mark before all is done, so another chief would do the same.
  const Feeds at{{state_.fed_step().name(), Tensor::Scalar(step)}};
  const auto set_step = [&] { return session.Run(at, {}, {state_.set_step()}, nullptr); };
  // Before the others are taken back: else they would look like servers that have not kept an
  // update that is done, and a replica that a given up step leaves now would be believed.
  if (found.whole[0]) TROUPE_RETURN_IF_ERROR(set_step());
  TROUPE_RETURN_IF_ERROR(RunAll(session, undo));
  TROUPE_RETURN_IF_ERROR(session.Run(at, {}, fill, nullptr));
  if (!found.whole[0]) TROUPE_RETURN_IF_ERROR(set_step());
  TROUPE_RETURN_IF_ERROR(Replicate(session));
  TROUPE_RETURN_IF_ERROR(RunAll(session, keep));
  begun->step = step;
  begun->filled = static_cast<int>(fill.size());
  return true;
}

absl::Status ServerRecovery::KeepAll(Session& session) const {
  TROUPE_RETURN_IF_ERROR(Replicate(session));
  std::vector<Operation> keep;
  for (const ServerState::Server& s : state_.servers()) keep.push_back(s.keep);
  return RunAll(session, keep);
}

// Saved before there are marks, which the other workers wait for: so that is the start.
absl::StatusOr<std::string> ServerRecovery::Start(Session& session) {
  TROUPE_RETURN_IF_ERROR(session.Run({}, {}, {state_.unmark()}, nullptr));
  TROUPE_RETURN_IF_ERROR(session.Run({}, {}, {init_}, nullptr));
  TROUPE_ASSIGN_OR_RETURN(std::string saved, Save(session, 0));
  TROUPE_RETURN_IF_ERROR(KeepAll(session));
  return saved;
}

absl::Status ServerRecovery::Restore(Session& session, const Found& found, const std::string& checkpoint) const {
  if (!each_alone_) {
    TROUPE_RETURN_IF_ERROR(session.Run({}, {}, {state_.unmark()}, nullptr));
    TROUPE_RETURN_IF_ERROR(RestoreOnly(session, checkpoint));
    // Of mirrors, the first has been restored.
    for (size_t i = 1; mirrors_ != nullptr && i < found.whole.size(); ++i)
      TROUPE_RETURN_IF_ERROR(RunAll(session, {mirrors_->fills()[i]}));
    return KeepAll(session);
  }
  for (size_t i = 0; i < found.whole.size(); ++i) {
    if (found.whole[i]) continue;
    Saver saver = of_server_[i];
    TROUPE_RETURN_IF_ERROR(saver.Restore(session, checkpoint));
    TROUPE_RETURN_IF_ERROR(RunAll(session, {state_.servers()[i].keep}));
  }
  return absl::OkStatus();
}

absl::StatusOr<ServerRecovery::Begun> ServerRecovery::Begin(Session& session, int64_t seen) {
  TROUPE_ASSIGN_OR_RETURN(const Found found, Ask(session));
  Begun begun{.step = found.step, .from = TrainingEvent::kServers};
  if (found.all) {
    TROUPE_ASSIGN_OR_RETURN(const bool settled, Settle(session, found));
    if (settled) return begun;
  }
  if (state_.live_replicas() && !found.all) {
    TROUPE_ASSIGN_OR_RETURN(const bool filled, FillFromReplicas(session, found, &begun));
    // An update that is taken back though it was done had not been told of.
    begun.lost_updates = std::max<int64_t>(0, seen - begun.step);
    if (filled) return begun;
  }
  for (const int64_t mark : found.marks) seen = std::max(seen, mark);
  seen = std::max(seen, found.step);
  if (mirrors_ != nullptr && !found.all) {
    TROUPE_ASSIGN_OR_RETURN(const bool filled, Fill(session, found, &begun));
    begun.lost_updates = std::max<int64_t>(0, seen - begun.step);
    if (filled) return begun;
  }
  TROUPE_ASSIGN_OR_RETURN(const Checkpoint newest, Newest());
  begun = {.checkpoint = newest.path};
  const int64_t back_to = std::max<int64_t>(0, newest.step);
  begun.from = begun.checkpoint.empty() ? TrainingEvent::kStart : TrainingEvent::kCheckpoint;
  if (begun.from == TrainingEvent::kCheckpoint) {
    TROUPE_RETURN_IF_ERROR(Restore(session, found, begun.checkpoint));
  } else {
    TROUPE_ASSIGN_OR_RETURN(begun.checkpoint, Start(session));
  }
  TROUPE_ASSIGN_OR_RETURN(const Tensor now, session.Get(state_.global_step()));
  begun.step = NumberIn(now);
  begun.lost_updates = std::max<int64_t>(0, seen - back_to);
  return begun;
}

absl::StatusOr<std::string> ServerRecovery::Save(Session& session, int64_t step) {
  if (policy_.folder.empty()) return "";
  return saver_.Save(session, files::Join(policy_.folder, policy_.name), step);
}

}  // namespace troupe::train
