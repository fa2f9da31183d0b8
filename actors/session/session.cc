#include "troupe/session.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>

#include "actors/threads/actor_thread.h"
#include "actors/threads/aside.h"
#include "actors/threads/inside_actor.h"
#include "actors/watch/call_wait.h"
#include "actors/messages/messages.h"
#include "actors/session/session_impl.h"
#include "actors/step/answers.h"
#include "actors/threads/no_memory.h"
#include "actors/threads/surely.h"
#include "graph/core/device_name.h"
#include "graph/core/guarded.h"
#include "graph/core/log.h"
#include "troupe/proto/config.pb.h"
#include "troupe/proto/graph.pb.h"

namespace troupe {
namespace {

using namespace std::chrono_literals;

std::atomic<int64_t> next_session{1};

}  // namespace

void Session::Impl::EndActor() {
  Runtime::Impl& in = *runtime->impl();
  caf::scoped_actor self(*in.system);
  in.root->children()->Doom(actor_name());
  while (const caf::actor supervisor = in.root->actor()) {
    self->monitor(supervisor);
    SendSurely(
        *in.system, supervisor, [&] { return remove_child{actor_name()}; }, caf::strong_actor_ptr(self->ctrl()));
    bool removed = false;
    self->receive([&](child_removed) { removed = true; }, [](const caf::down_msg&) {});
    // It lives on, and would keep what is left of each session's.
    self->demonitor(supervisor->address());
    if (removed) return;
  }
  // Nobody watches over it.
  const caf::actor actor = master->actor();
  if (!actor) return;
  self->monitor(actor);
  StopSurely(*in.system, actor);
  self->receive([](const caf::down_msg&) {});
}

void Session::Impl::ForgetQuestions() {
  Runtime::Impl& in = *runtime->impl();
  std::lock_guard<std::mutex> steps_lock(in.steps->mu);
  in.steps->ask.erase(this);
}

void Session::Impl::ForgetMessages() {
  Runtime::Impl& in = *runtime->impl();
  std::lock_guard<std::mutex> lock(in.mu);
  in.to_session.erase(this);
}

Session::Session(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

namespace {

absl::Status CheckOptions(const SessionOptions& options) {
  if (options.max_signatures < 0) return InvalidArgument("max_signatures is negative");
  if (options.max_partial_runs < 0) return InvalidArgument("max_partial_runs is negative");
  if (options.connect_timeout_ms <= 0) return InvalidArgument("connect_timeout_ms is not positive");
  if (options.runtime != nullptr && options.runtime->impl()->process != ThisProcess())
    return OfAnotherProcess("runtime");
  return absl::OkStatus();
}

// How the supervisor makes the session's actor, and whom it tells when it cannot.
ChildSpec SpecOf(const Session::Impl& impl) {
  ChildSpec spec;
  spec.name = impl.actor_name();
  spec.policy = impl.runtime->impl()->policies.session;
  // The supervisor keeps no session alive.
  spec.spawn = [weak = std::weak_ptr(impl.master)](caf::actor_system& system, uint64_t) {
    const std::shared_ptr<SessionMaster> master = weak.lock();
    return master == nullptr ? caf::actor() : SpawnSession(system, master);
  };
  spec.failed = [name = spec.name](const std::string& why) {
    LogWarning("actor '", name, "' failed (", why, "); it is restarted");
  };
  spec.gave_up = [name = spec.name, weak = std::weak_ptr(impl.master)](const std::string& why) {
    LogError("actor '", name, "' failed too often (", why, "); it is not restarted");
    if (const std::shared_ptr<SessionMaster> master = weak.lock()) master->GiveUp(why);
  };
  spec.abandoned = [weak = std::weak_ptr(impl.master)](const std::string& why) {
    if (const std::shared_ptr<SessionMaster> master = weak.lock()) master->Abandon(why);
  };
  return spec;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Session::Create(const SessionOptions& options) {
  KnowThreadsEnd();
  CountForks();
  TROUPE_RETURN_IF_ERROR(CheckOptions(options));
  auto impl = std::make_shared<Impl>(options);
  if (const char* wire = std::getenv("TROUPE_WIRE_MESSAGES"); wire != nullptr && std::string_view(wire) == "1")
    impl->options.wire_messages = true;
  if (!options.target.empty()) {
    if (InsideActor()) return RefuseInActor("Create with a target");
    if (options.runtime != nullptr) return InvalidArgument("a session has a target or a runtime, not both");
    TROUPE_ASSIGN_OR_RETURN(impl->elsewhere, OpenSessionElsewhere(options, &impl->runtime));
    impl->closed->store(true);
    return std::unique_ptr<Session>(new Session(std::move(impl)));
  }
  impl->runtime = options.runtime;
  if (impl->runtime == nullptr) {
    TROUPE_ASSIGN_OR_RETURN(impl->runtime, Runtime::Start(options.runtime_options));
  }
  impl->id = StrCat(next_session.fetch_add(1));
  // Other processes of a cluster know the session by it, and have sessions of their own.
  if (const Runtime::Impl& in = *impl->runtime->impl(); in.in_cluster) impl->id = StrCat(in.incarnation, "-", impl->id);
  impl->master = std::make_shared<SessionMaster>(impl->runtime, impl->options, impl->id, impl->closed);
  impl->cache = impl->master->cache();
  Runtime::Impl& in = *impl->runtime->impl();
  ChildSpec spec = SpecOf(*impl);
  caf::actor first;
  try {
    // Before there is an actor: the news of a worker's death that comes while it asks that worker
    // for its devices would be told to nobody, and no answer would come.
    std::unique_lock<std::mutex> lock(in.mu);
    in.to_session[impl.get()] = [weak = std::weak_ptr(impl->master)](caf::mailbox_element_ptr message) {
      const std::shared_ptr<SessionMaster> master = weak.lock();
      if (master != nullptr) return master->Send(std::move(message));
      SessionMaster::Refuse(*message, absl::CancelledError("the session is gone"));
    };
    std::unique_lock<std::mutex> steps_lock(in.steps->mu);
    in.steps->ask[impl.get()] = [weak = std::weak_ptr(impl->master)](const Runtime::Impl::Answered& answered) {
      Runtime::Impl::Questions questions;
      const std::shared_ptr<SessionMaster> master = weak.lock();
      if (master == nullptr) return questions;
      for (Signature::Asked& a : master->Ask(answered)) questions.push_back(std::move(a.question));
      return questions;
    };
    steps_lock.unlock();
    lock.unlock();
    first = spec.spawn(*in.system, 1);
    impl->master->Attach(first);
    in.root->children()->Adopt(std::move(spec), first);
  } catch (...) {
    // Nobody knows of a session that could not be made.
    impl->ForgetMessages();
    impl->ForgetQuestions();
    if (first) StopSurely(*in.system, first);
    throw;
  }
  SendSurely(*in.system, in.root->actor(), [&] { return add_child{impl->actor_name()}; });
  std::unique_ptr<Session> session;
  UntilMemoryAllows([&] { session.reset(new Session(impl)); });
  return session;
}

Session::~Session() {
  if (impl_->process != ThisProcess()) {
    (void)new std::shared_ptr<Impl>(std::move(impl_));  // it is the parent's, and stays
    return;
  }
  if (impl_->elsewhere != nullptr) {
    // Its runtime may end with it.
    OnSoundThread([&] {
      impl_->elsewhere->Close();
      impl_ = nullptr;
    });
    return;
  }
  Runtime::Impl& runtime = *impl_->runtime->impl();
  impl_->ForgetQuestions();
  if (InsideActor()) {
    impl_->ForgetMessages();
    impl_->master->shared_watch()->EndReports(false);
    impl_->End();
    impl_->master->WaitForWorkAtExit();
    const caf::actor actor = impl_->master->actor();
    if (actor) UntilMemoryAllows([&] { actor->attach_functor([at_exit = UntilExit()] {}); });
    RootSupervisor& root = *impl_->runtime->impl()->root;
    root.children()->Doom(impl_->actor_name());
    SendSurely(*runtime.system, root.actor(), [&] { return remove_child{impl_->actor_name()}; });
    if (!root.actor() && actor) StopSurely(*runtime.system, actor);
    return;
  }
  OnSoundThread([&] {
    impl_->End();
    impl_->master->shared_watch()->EndReports(true);
    constexpr std::chrono::seconds kPatience{5};  // with a kernel whose constructor does not return, say
    const auto until = std::chrono::steady_clock::now() + kPatience;
    const auto wait = [&] {
      (void)impl_->master->WaitForWork(
          std::max(std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()), 0ms));
    };
    // The workers' answers, and the news of a worker's death, come to the session's actor.
    if (runtime.aside) wait();
    impl_->ForgetMessages();
    // The shares of the runtime that the session's actor and its work have go before ours does, so
    // that whoever owns the actor system may end it next.
    NoLoggerAfter restore;
    impl_->EndActor();
    wait();
    // What takes longer than this patience, the end of the process waits for.
    if (!impl_->master->WaitForWork(0ms)) impl_->master->WaitForWorkAtExit();
  });
}

absl::Status Session::Extend(const proto::GraphDef& def) {
  // Lent: this call lasts until the answer.
  return impl_->Extend({std::shared_ptr<const proto::GraphDef>(std::shared_ptr<void>(), &def), nullptr});
}

absl::Status Session::Extend(const Graph& from) {
  return impl_->Extend({nullptr, std::shared_ptr<const Graph>(std::shared_ptr<void>(), &from)});
}

namespace {

run_request StepOf(const Session::Impl& impl, const RunOptions& options, const FeedList& feeds, const NameList& fetches,
                   const NameList& targets) {
  run_request step{feeds.get(), fetches.get(), targets.get(), options};
  if (step.options.timeout_ms == 0) step.options.timeout_ms = impl.options.operation_timeout_ms;
  return step;
}

// What Run does of a session that is not usable here: `here` says why.
absl::Status RunElsewhere(const Session::Impl& impl, absl::Status here, const RunOptions& options,
                          const FeedList& feeds, const NameList& fetches, const NameList& targets,
                          std::vector<Tensor>* outputs, proto::RunMetadata* metadata) {
  if (impl.elsewhere == nullptr) return here;
  TROUPE_RETURN_IF_ERROR(impl.MayAsk("Run"));
  return impl.elsewhere->Run(StepOf(impl, options, feeds, fetches, targets), outputs, metadata);
}

}  // namespace

absl::Status Session::Run(const FeedList& feeds, const NameList& fetches, const NameList& targets,
                          std::vector<Tensor>* outputs) {
  return Run({}, feeds, fetches, targets, outputs, nullptr);
}

absl::Status Session::Run(const RunOptions& options, const FeedList& feeds, const NameList& fetches,
                          const NameList& targets, std::vector<Tensor>* outputs, proto::RunMetadata* metadata) {
  if (absl::Status here = impl_->Usable(); !here.ok()) [[unlikely]]
    return RunElsewhere(*impl_, std::move(here), options, feeds, fetches, targets, outputs, metadata);
  try {
    const Deadline deadline = impl_->DeadlineOf(options);
    TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<Signature> s,
                            impl_->Find(feeds.get(), fetches.get(), targets.get(), deadline, options.cancellation,
                                        Impl::PartsOf(options, metadata)));
    return s->RunBlocking(options, deadline, FeedValues(feeds.get()), outputs, metadata);
  } catch (const std::bad_alloc&) {
    return ThrownStatus("the search for the compiled step");
  }
}

void Session::RunAsync(const RunOptions& options, const FeedList& feeds, const NameList& fetches,
                       const NameList& targets, RunCallback done, proto::RunMetadata* metadata) {
  if (done == nullptr) return NoCallback();
  if (absl::Status s = impl_->Usable(); !s.ok()) {
    if (impl_->elsewhere == nullptr || impl_->process != ThisProcess()) return CallDone(done, std::move(s), {});
    // The callback may destroy this, also while the call is being begun on this thread.
    const std::shared_ptr<SessionElsewhere> there = impl_->elsewhere;
    return there->RunAsync(StepOf(*impl_, options, feeds, fetches, targets), std::move(done), metadata);
  }
  std::string key;
  proto::RunMetadata* parts = Impl::PartsOf(options, metadata);
  if (auto s = impl_->Cached(feeds.get(), fetches.get(), targets.get(), &key); s != nullptr && parts == nullptr)
    return s->RunAsync(options, s->DeadlineOf(options), FeedValues(feeds.get()), std::move(done), metadata);
  // The callback, which may come before this returns, may destroy the session.
  const std::shared_ptr<Impl> impl = impl_;
  CompileAndRun(impl->master, impl, {0, Impl::FeedNamesOf(feeds.get()), fetches.get(), targets.get(), false}, options,
                impl->DeadlineOf(options), FeedValues(feeds.get()), std::move(done), metadata, nullptr);
}

absl::StatusOr<Callable> Session::Prepare(const NameList& feeds, const NameList& fetches, const NameList& targets) {
  if (impl_->elsewhere != nullptr) {
    TROUPE_RETURN_IF_ERROR(impl_->MayAsk("Prepare"));
    TROUPE_RETURN_IF_ERROR(
        impl_->elsewhere->Prepare(feeds.get(), fetches.get(), targets.get(), impl_->options.operation_timeout_ms));
    Callable c;
    c.elsewhere_ = std::make_shared<const Callable::Elsewhere>(Callable::Elsewhere{
        impl_->elsewhere, feeds.get(), fetches.get(), targets.get(), impl_->options.operation_timeout_ms});
    c.process_ = impl_->process;
    return c;
  }
  TROUPE_ASSIGN_OR_RETURN(
      std::shared_ptr<Signature> s,
      impl_->Find(feeds.get(), fetches.get(), targets.get(), impl_->DeadlineOf(impl_->options.operation_timeout_ms)));
  Callable c;
  c.signature_ = std::move(s);
  c.process_ = impl_->process;
  return c;
}

absl::Status Session::Close() {
  if (impl_->process != ThisProcess()) return OfAnotherProcess("session");
  if (impl_->elsewhere != nullptr) {
    impl_->elsewhere->Close();
  } else if (!impl_->closed->load()) {
    impl_->End();
  }
  return absl::OkStatus();
}

std::vector<std::string> Session::RunningSteps() const {
  if (impl_->process != ThisProcess()) return {};
  if (impl_->elsewhere != nullptr) {
    if (!impl_->MayAsk("RunningSteps").ok()) return {};
    return impl_->elsewhere->RunningSteps().value_or(std::vector<std::string>());
  }
  struct Answers {
    std::mutex mu;
    std::condition_variable came;
    std::optional<std::vector<Signature::Asked>> asked;
    size_t answered = 0;
  };
  auto answers = std::make_shared<Answers>();
  const auto answered = [answers](const std::shared_ptr<StepQuestion>&) {
    std::lock_guard<std::mutex> lock(answers->mu);
    ++answers->answered;
    answers->came.notify_all();
  };
  // A part may answer before this returns.
  std::vector<Signature::Asked> asked = impl_->master->Ask(answered);
  std::unique_lock<std::mutex> lock(answers->mu);
  answers->asked = std::move(asked);
  // A part answers in its turn; one whose turn does not end is named without an answer.
  answers->came.wait_for(lock, std::chrono::milliseconds(100),
                         [&] { return answers->asked && answers->answered == answers->asked->size(); });
  std::vector<std::string> lines;
  if (!answers->asked) return lines;
  // A question that is never answered keeps what it would tell, which must not keep the question.
  asked = *std::exchange(answers->asked, std::nullopt);
  lock.unlock();
  std::sort(asked.begin(), asked.end(),
            [](const Signature::Asked& a, const Signature::Asked& b) { return a.step_id < b.step_id; });
  for (const Signature::Asked& a : asked) {
    for (const std::string& l : a.question->Lines())
      lines.push_back(l.rfind(' ', 0) == 0 ? l : StrCat("step ", a.step_id, " (", a.what, "): ", l));
  }
  return lines;
}

absl::StatusOr<std::vector<DeviceStatus>> Session::ListDevices() const {
  TROUPE_RETURN_IF_ERROR(impl_->UsableThere());
  if (impl_->elsewhere == nullptr) {
    std::vector<DeviceStatus> devices = impl_->runtime->devices();
    for (const auto& [device, task] : impl_->master->RemoteDevices()) {
      DeviceStatus& d = devices.emplace_back();
      d.name = device;
      const absl::StatusOr<DeviceName> name = DeviceName::Parse(device);
      if (name.ok() && name->type) d.type = *name->type;
    }
    return devices;
  }
  TROUPE_RETURN_IF_ERROR(impl_->MayAsk("ListDevices"));
  return impl_->elsewhere->ListDevices();
}

caf::actor ActorOf(const Session& session) {
  const std::shared_ptr<SessionMaster>& master = session.impl()->master;
  return master == nullptr ? caf::actor() : master->actor();
}

Runtime* Session::runtime() const { return impl_->runtime.get(); }

}  // namespace troupe
