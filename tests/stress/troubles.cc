// What befalls sessions and runtimes while they work.
#include "actors/session/session_master.h"
#include "tests/stress/doing.h"
#include "tests/stress/faults.h"
#include "tests/stress/scenario.h"

namespace troupe::stress {

void Scenario::Befall(const Trouble& trouble) {
  Party& p = *parties_[static_cast<size_t>(trouble.party)];
  const std::shared_ptr<Session> session = p.Get();
  const auto name = [&] { return StrCat(NameOf(trouble.what), " of session ", p.index); };
  switch (trouble.what) {
    case What::kClose: {
      if (session == nullptr) return;
      p.closing.Now();
      Doing doing(this, name());
      const absl::Status s = session->Close();
      if (s.ok()) p.closed.Now();
      if (!s.ok()) Fault(number_, "Close fails", StrCat(name(), ": ", s.ToString()));
      return;
    }
    case What::kDrop:
      return DropSession(p);
    case What::kDropInHandler:
      return InHandler(p, [this, &p] { DropSession(p); });
    case What::kDropInCallback:
    case What::kMakeInCallback: {
      if (session == nullptr) return;
      Doing doing(this, name());
      const Model::Fetch& f = p.model->fetches()[0];
      session->RunAsync(
          Model::FeedsOf(PlainInputs(p)), {f.name}, {},
          [this, me = shared_from_this(), &p, what = trouble.what](const absl::Status&, const std::vector<Tensor>&) {
            what == What::kMakeInCallback ? MakeSession(p) : DropSession(p);
          });
      return;
    }
    case What::kMakeInHandler:
      return InHandler(p, [this, &p] { MakeSession(p); });
    case What::kKillSession:
    case What::kKillExecutor:
    case What::kKillWorker:
    case What::kKillDevice:
    case What::kKillContainer:
      return Kill(p, trouble.what);
    case What::kReset: {
      if (session == nullptr) return;
      for (auto& other : parties_) {
        if (other->place == p.place) other->reset.Now();
      }
      Doing doing(this, name());
      const absl::Status s = session->Reset({""});
      if (!s.ok() && !p.place->killed.came()) Fault(number_, "Reset fails", StrCat(name(), ": ", s.ToString()));
      return;
    }
    case What::kExtend: {
      if (session == nullptr) return;
      p.extending.Now();
      Doing doing(this, name());
      const absl::Status s = session->Extend(p.model->graph());
      if (s.ok()) p.extended.Now();
      if (!s.ok() && !p.closing.came() && !p.killed.came())
        Fault(number_, "Extend fails", StrCat(name(), ": ", s.ToString()));
      return;
    }
    case What::kStatus: {
      if (session == nullptr) return;
      Doing doing(this, name());
      (void)session->RunningSteps();
      return;
    }
    case What::kBadPrepare: {
      if (session == nullptr) return;
      Doing doing(this, name());
      const absl::Status s = session->Prepare({"x"}, {"nobody:0"}, {}).status();
      const bool expected =
          s.code() == absl::StatusCode::kNotFound || (p.closing.came() && absl::IsCancelled(s)) ||
          ((p.killed.came() || p.place->killed.came()) && (absl::IsAborted(s) || absl::IsUnavailable(s)));
      if (!expected) Fault(number_, "Prepare of unknown names", s.ToString());
      return;
    }
  }
}

void Scenario::InHandler(Party& p, std::function<void()> what) {
  const auto place =
      std::find_if(places_.begin(), places_.end(), [&](auto& q) { return q.get() == p.place; }) - places_.begin();
  {
    std::lock_guard<std::mutex> lock(mu_);
    for_handlers_.push_back(std::move(what));
  }
  caf::anon_send(users_[static_cast<size_t>(place)], int64_t{-1});
}

// A session in the same runtime, that is made, used without blocking, and destroyed where it is.
void Scenario::MakeSession(Party& p) {
  std::shared_ptr<Runtime> runtime;
  {
    std::lock_guard<std::mutex> lock(mu_);
    runtime = p.place->runtime;
  }
  if (runtime == nullptr) return;
  SessionOptions options;
  options.runtime = runtime;
  Doing doing(this, "a session in a handler");
  auto session = Session::Create(options);
  if (!session.ok()) {
    if (!p.place->killed.came()) Fault(number_, "Create fails in a handler", session.status().ToString());
    return;
  }
  (*session)->RunAsync({}, {"nobody"}, {}, [](const absl::Status&, const std::vector<Tensor>&) {});
}

void Scenario::DropSession(Party& p) {
  std::shared_ptr<Session> session;
  {
    std::lock_guard<std::mutex> lock(p.mu);
    session.swap(p.session);
  }
  session.reset();
}

// Executors have no names. A set is leased, its actors are noted, and it is given back for others
// to run.
void Scenario::HarvestExecutors(Party& p) {
  if (!options_.Has("kills")) return;
  const size_t index = static_cast<size_t>(p.index);
  for (size_t i = 0; i < p.signatures.size() && i < 3; ++i) {
    Names fetches;
    for (const int f : p.signatures[i]) fetches.push_back(p.model->fetches()[static_cast<size_t>(f)].name);
    const auto harvest = [me = shared_from_this(), index](const compile_reply& reply) {
      if (reply.found == nullptr) return;
      auto set = reply.found->Lease();
      if (set == nullptr) return;
      {
        std::lock_guard<std::mutex> lock(me->mu_);
        for (const auto& e : set->executors()) {
          if (!me->cast_.empty()) me->cast_[index].push_back(e->actor());
        }
      }
      reply.found->Release(std::move(set));
    };
    if (const caf::actor& session = session_actors_[index])
      AskThen<compile_reply>(session.home_system(), session, compile_request{1, Model::FeedNames(), fetches, {}, false},
                             Reply<compile_reply>(harvest));
  }
}

void Scenario::Kill(Party& p, What what) {
  const size_t index = static_cast<size_t>(p.index);
  if (what == What::kKillSession) {
    p.killed.Now();
    const std::shared_ptr<Session> session = p.Get();
    const caf::actor actor = session == nullptr ? nullptr : ActorOf(*session);
    if (actor) caf::anon_send_exit(actor, caf::exit_reason::kill);
    return;
  }
  if (what == What::kKillExecutor) {
    p.killed.Now();
    std::vector<caf::actor> cast;
    {
      std::lock_guard<std::mutex> lock(mu_);
      cast.swap(cast_[index]);
    }
    for (const caf::actor& a : cast) caf::anon_send_exit(a, caf::exit_reason::kill);
    HarvestExecutors(p);
    return;
  }
  std::shared_ptr<Runtime> runtime;
  {
    std::lock_guard<std::mutex> lock(mu_);
    runtime = p.place->runtime;
  }
  if (runtime == nullptr) return;
  p.place->killed.Now();
  Runtime::Impl& impl = *runtime->impl();
  const std::string device = impl.devices[static_cast<size_t>(number_) % impl.devices.size()]->name();
  const std::string name = what == What::kKillWorker
                               ? WorkerName(impl.tasks[0].name)
                               : StrCat(what == What::kKillDevice ? "device:" : "container:", device);
  const caf::actor actor = impl.directory->Find(name);
  if (actor) caf::anon_send_exit(actor, caf::exit_reason::kill);
}

}  // namespace troupe::stress
