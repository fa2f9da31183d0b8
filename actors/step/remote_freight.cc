// What the steps of several processes do with tensors that travel in pieces: whose they are, and
// what it costs that one does not come.
#include <utility>

#include "actors/signature/signature.h"
#include "actors/step/cancel_later.h"
#include "actors/step/executor_set.h"
#include "actors/step/remote_step.h"
#include "actors/step/remote_steps.h"
#include "actors/threads/no_memory.h"

namespace troupe {
namespace {

// Why a step does not get the value of an edge.
absl::Status Named(const absl::Status& why, const EdgeTable& edges, const freight_message& message) {
  const auto* const letter = std::get_if<part_letter>(&message);
  const auto* const t = letter != nullptr ? std::get_if<tensor_to_part>(&letter->message) : nullptr;
  if (t == nullptr || !edges.Has(t->edge)) return Annotate(why, "a value from another process");
  const std::string& edge = edges[t->edge].name;
  return Annotate(why, StrCat("tensor '", EdgeTensor(edge), "' of ", EdgeSender(edge)));
}

}  // namespace

bool RemoteSteps::IsAwaited(const freight_note& note, FreightIn::Key* key, bool* begun) {
  *begun = true;
  const uint64_t mine = runtime_->incarnation;
  if (const auto* run = std::get_if<run_parts>(&note.message)) {
    *key = {run->master, run->step, run->task};
    const auto master = masters_.find(run->master);
    return IsThere(run->master) && master != masters_.end() && !others_.contains(*key) &&
           !master->second.over.contains({run->step, run->task});
  }
  const auto owes = [&](uint64_t master, int64_t step, uint32_t number) {
    *key = {mine, step, FreightIn::kOwn};
    const auto it = own_.find(step);
    if (master != mine || it == own_.end()) return false;
    const size_t task = it->second->remote()->Find(number);
    return task < it->second->remote()->size() && it->second->remote()->Owes(task, step);
  };
  if (const auto* done = std::get_if<parts_done>(&note.message)) return owes(done->master, done->step, done->task);
  if (const auto* told = std::get_if<step_letter>(&note.message))
    return owes(told->master, told->step, told->from.task);
  const auto& letter = std::get<part_letter>(note.message);
  if (letter.master == mine) {
    *key = {mine, letter.step, FreightIn::kOwn};
    return own_.contains(letter.step) && std::holds_alternative<tensor_to_part>(letter.message);
  }
  *key = {letter.master, letter.step, letter.to.task};
  if (others_.contains(*key)) return true;
  *begun = false;
  const auto master = masters_.find(letter.master);
  return IsThere(letter.master) && master != masters_.end() &&
         !master->second.over.contains({letter.step, letter.to.task});
}

void RemoteSteps::Announced(const std::string& task, freight_note&& note, const caf::strong_actor_ptr& from) {
  FreightIn::Wholes whole;
  FreightIn::Key key;
  bool awaited = false, begun = false;
  std::shared_ptr<const SharedView> pool;
  try {
    if (note.to == runtime_->incarnation) pool = freight_->in.View(note);
    std::lock_guard<std::mutex> lock(mu_);
    awaited = note.to == runtime_->incarnation && IsAwaited(note, &key, &begun);
    if (awaited && !begun) {
      Early& early = *FindEarly(key);
      // Of one that is lost the step fails anyway.
      awaited = MakeRoom(key, &early, std::get<part_letter>(note.message), 0);
      if (awaited) {
        ++early.notes;
        ++early_messages_;
      }
    }
    if (awaited) whole = freight_->in.Announce(task, std::move(note), from, key, begun, std::move(pool));
  } catch (const std::bad_alloc&) {
    freight_->in.Refuse(note, from);
    return LoseWhole({key, task, from, std::move(note.message), kNoMemory, {}});
  }
  HandOn(std::move(whole));
  if (awaited) return;
  freight_->in.Refuse(note, from);
  // Its master waits for an answer, which says what is missing here.
  if (auto* run = std::get_if<run_parts>(&note.message)) {
    run->arguments.clear();
    if (note.to == runtime_->incarnation) Run(task, std::move(*run), caf::actor_cast<caf::actor>(from));
  }
}

void RemoteSteps::Arrived(const freight_piece& piece, const caf::strong_actor_ptr& from) {
  HandOn(freight_->in.Arrived(piece, from));
}

void RemoteSteps::Gone(const freight_gone& message) { HandOn(freight_->in.Gone(message)); }

void RemoteSteps::HandOn(FreightIn::Wholes&& wholes) {
  for (FreightIn::Whole& whole : wholes) {
    if (!whole.lost.ok()) {
      LoseWhole(std::move(whole));
      continue;
    }
    if (auto* run = std::get_if<run_parts>(&whole.message)) {
      Run(whole.task, std::move(*run), caf::actor_cast<caf::actor>(whole.from));
    } else if (auto* done = std::get_if<parts_done>(&whole.message)) {
      Done(std::move(*done));
    } else if (auto* told = std::get_if<step_letter>(&whole.message)) {
      Tell(std::move(*told));
    } else {
      Deliver(std::move(std::get<part_letter>(whole.message)));
    }
    for (parts_done& after : whole.after) Done(std::move(after));
  }
}

void RemoteSteps::LoseWhole(FreightIn::Whole&& whole) {
  if (auto* run = std::get_if<run_parts>(&whole.message)) {
    parts_done refused{run->master, run->step, run->task, whole.lost, false, false, {}, {}};
    Refuse({run->master, run->step, run->task});
    AnswerMaster(runtime_, caf::actor_cast<caf::actor>(whole.from), std::move(refused));
  } else if (auto* done = std::get_if<parts_done>(&whole.message)) {
    done->results.clear();
    if (done->status.ok()) done->status = whole.lost;
    Done(std::move(*done));
  } else {
    LostLetter(whole);
  }
  for (parts_done& after : whole.after) Done(std::move(after));
}

void RemoteSteps::LostLetter(const FreightIn::Whole& whole) {
  CancelLater later;
  std::lock_guard<std::mutex> lock(mu_);
  const auto [master, number, task] = whole.key;
  if (task == FreightIn::kOwn) {
    const auto it = own_.find(number);
    if (it != own_.end()) it->second->Abort(number, Named(whole.lost, it->second->edges(), whole.message));
  } else if (const auto it = others_.find(whole.key); it != others_.end()) {
    const RemoteStep& step = *it->second;
    step.set()->Stop(step.own_step(), Named(whole.lost, step.set()->edges(), whole.message));
  } else if (const auto early = early_.find(whole.key); early != early_.end() && early->second.lost.ok()) {
    Lose(&early->second, whole.lost);
  }
}

}  // namespace troupe
