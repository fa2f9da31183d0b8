#include "actors/watch/stall_report.h"

#include <algorithm>
#include <future>
#include <map>
#include <set>
#include <tuple>

#include "actors/executor/executor_actor.h"
#include "actors/step/local_transport.h"

namespace troupe {
namespace {

using Root = StepReport::Root;

class Assembler {
 public:
  Assembler(const std::vector<PartAnswer>& parts, size_t limit) : parts_(parts), limit_(limit) {}

  std::vector<std::string> Run() {
    for (size_t p = 0; p < parts_.size(); ++p) {
      if (!parts_[p].report) continue;
      for (const Root& root : parts_[p].report->roots) {
        for (const StepReport::Chain& c : root.chains) {
          if (!c.gives.key.empty()) givers_.try_emplace(KeyOf(c.gives), &root);
        }
        for (const std::string& key : root.later) later_.try_emplace(key, &root);
      }
    }
    std::vector<std::pair<const Root*, std::string>> culprits;
    for (size_t p = 0; p < parts_.size(); ++p) {
      if (!parts_[p].report) continue;
      for (const Root& root : parts_[p].report->roots) {
        std::string why;
        if (!FindGiver(root, &why)) culprits.emplace_back(&root, root.text + why);
      }
    }
    for (size_t p = 0; p < parts_.size(); ++p) {
      if (parts_[p].report) continue;
      Print(parts_[p].silent);
      for (const Root* waits : behind_part_[p]) Follow(waits, "  <- ");
    }
    std::stable_sort(culprits.begin(), culprits.end(),
                     [](const auto& a, const auto& b) { return a.first->nanos > b.first->nanos; });
    for (const auto& [root, text] : culprits) {
      Print(text);
      followed_.insert(root);
      Dependents(*root);
    }
    // What is left waits for each other in a circle.
    for (const PartAnswer& part : parts_) {
      if (!part.report) continue;
      for (const Root& root : part.report->roots) {
        if (followed_.contains(&root)) continue;
        Print("a circle of parts that wait for each other:");
        Follow(&root, "  <- ");
      }
    }
    if (left_out_ > 0) lines_.push_back(StrCat("and ", left_out_, " lines more"));
    return std::move(lines_);
  }

 private:
  using Key = std::tuple<std::string, IterationPath, bool>;
  static Key KeyOf(const StepReport::Link& l) { return {l.key, l.iteration, l.grant}; }

  // Hangs `root` below the one that it waits for, if another part has it. Otherwise false, and
  // `why` says what is known of the other end.
  bool FindGiver(const Root& root, std::string* why) {
    if (root.takes.key.empty()) return false;
    auto giver = givers_.find(KeyOf(root.takes));
    const Root* found = giver != givers_.end() ? giver->second : nullptr;
    if (const auto later = later_.find(root.takes.key); found == nullptr && later != later_.end())
      found = later->second;
    if (found != nullptr) {
      behind_root_[found].push_back(&root);
      return true;
    }
    for (size_t p = 0; p < parts_.size(); ++p) {
      if (parts_[p].part == nullptr) {
        const bool other = EdgeSender(root.takes.key) == parts_[p].device;
        if (root.takes.grant || !other) continue;
        if (!parts_[p].report) {
          behind_part_[p].push_back(&root);
          return true;
        }
        *why = !parts_[p].report->running
                   ? StrCat("; its other end, on ", parts_[p].device, ", did not run before its part ended")
                   : StrCat("; nothing holds its other end up, on ", parts_[p].device);
        return false;
      }
      const CompiledPart& part = *parts_[p].part;
      const auto& ends = root.takes.grant ? part.recvs : part.sends;
      const auto end = std::find_if(ends.begin(), ends.end(), [&](const auto& x) { return x.first == root.takes.key; });
      if (end == ends.end()) continue;
      if (!parts_[p].report) {
        behind_part_[p].push_back(&root);
        return true;
      }
      const KernelNode& n = part.info[end->second];
      const std::string other = StrCat("node '", n.name, "' (", n.op, ") on ", n.device->name());
      *why = !parts_[p].report->running ? StrCat("; its other end, ", other, ", did not run before its part ended")
                                        : StrCat("; nothing holds its other end up, ", other);
      return false;
    }
    *why = root.takes.grant ? "; no part receives it" : "; no part sends it";
    return false;
  }

  void Follow(const Root* root, const char* indent) {
    if (!followed_.insert(root).second) return;
    Print(indent + root->text);
    Dependents(*root);
  }
  void Dependents(const Root& root) {
    for (const StepReport::Chain& c : root.chains) {
      for (const std::string& line : c.lines) Print("  <- " + line);
    }
    const auto behind = behind_root_.find(&root);
    if (behind == behind_root_.end()) return;
    for (const Root* waits : behind->second) Follow(waits, "  <- ");
  }

  // Chains of one root begin alike.
  void Print(const std::string& line) {
    if (!printed_.insert(line).second) return;
    if (lines_.size() < limit_) {
      lines_.push_back(line);
    } else {
      ++left_out_;
    }
  }

  const std::vector<PartAnswer>& parts_;
  const size_t limit_;
  std::map<Key, const Root*> givers_;
  std::map<std::string, const Root*> later_;
  std::map<const Root*, std::vector<const Root*>> behind_root_;
  std::map<size_t, std::vector<const Root*>> behind_part_;
  std::set<const Root*> followed_;
  std::set<std::string> printed_;
  std::vector<std::string> lines_;
  size_t left_out_ = 0;
};

}  // namespace

std::vector<std::string> StallLines(const std::vector<PartAnswer>& parts, size_t limit) {
  return Assembler(parts, limit).Run();
}

StepQuestion::StepQuestion(const std::vector<std::shared_ptr<Executor>>& parts)
    : executors_(parts.begin(), parts.end()), parts_(parts.size()), left_(parts.size()) {
  for (size_t i = 0; i < parts.size(); ++i) parts_[i].part = parts[i]->state().shared_part();
}

int64_t OpenQuestions::Add(const std::shared_ptr<StepQuestion>& asks) {
  std::lock_guard<std::mutex> lock(mu_);
  std::erase_if(asked_, [](const auto& q) { return q.second.expired(); });
  asked_.emplace_back(++last_, asks);
  return last_;
}

void OpenQuestions::Answered(int64_t number, uint32_t part, StepReport report) {
  std::shared_ptr<StepQuestion> asks;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (const auto& [n, q] : asked_) {
      if (n == number) asks = q.lock();
    }
  }
  if (asks != nullptr) asks->Answered(part, std::move(report));
}

bool StepQuestion::Ask(LocalTransport* transport, std::function<void(const std::shared_ptr<StepQuestion>&)> answered) {
  std::vector<std::shared_ptr<Executor>> living;
  std::vector<RemoteLink::Part> others;
  if (transport != nullptr) others = transport->RemoteParts();
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (size_t i = 0; i < executors_.size(); ++i) {
      auto e = executors_[i].lock();
      if (e != nullptr && !e->dead()) {
        living.push_back(std::move(e));
        continue;
      }
      // It died after its part, or the step is about to hear of it. Nothing of the step runs there.
      parts_[i].report = StepReport();
      --left_;
    }
    for (const RemoteLink::Part& p : others) {
      parts_.push_back({nullptr, p.device, std::nullopt, ""});
      if (p.over) {
        parts_.back().report = StepReport();
      } else {
        ++left_;
      }
    }
    if (left_ == 0) return false;
    answered_ = std::move(answered);
  }
  const question q{transport->questions().Add(shared_from_this())};
  for (const auto& e : living) transport->Deliver(e->address(), q).IgnoreError();
  for (const RemoteLink::Part& p : others) {
    if (!p.over) transport->Deliver(p.address, q).IgnoreError();
  }
  return true;
}

void StepQuestion::Answered(uint32_t part, StepReport report) {
  std::function<void(const std::shared_ptr<StepQuestion>&)> answered;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (part >= parts_.size() || parts_[part].report) return;
    parts_[part].report = std::move(report);
    if (--left_ == 0) answered = std::move(answered_);
  }
  if (answered) answered(shared_from_this());
}

std::vector<std::string> StepQuestion::Lines() const {
  std::vector<PartAnswer> parts;
  {
    std::lock_guard<std::mutex> lock(mu_);
    parts = parts_;
  }
  const auto silence = std::chrono::steady_clock::now() - asked_;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].report) continue;
    if (parts[i].part == nullptr) {
      parts[i].silent = StrCat("the part on ", parts[i].device, ", in another process, has not answered for ",
                               DurationText(std::chrono::nanoseconds(silence).count()));
      continue;
    }
    const CompiledPart& part = *parts[i].part;
    parts[i].silent = StrCat("the part on ", part.device->name(), " has not answered for ",
                             DurationText(std::chrono::nanoseconds(silence).count()));
    const std::shared_ptr<Executor> e = executors_[i].lock();
    if (e == nullptr || e->dead()) {
      StrAppend(&parts[i].silent, ": its actor is dead");
    } else if (e->starting()) {
      StrAppend(&parts[i].silent, ": it has not begun, since it has not been given a thread");
    } else if (const uint32_t node = e->state().last_called(); part.nodes[node].handling == Handling::kKernel) {
      StrAppend(&parts[i].silent, "; the kernel that it called last is that of node '", part.info[node].name, "' (",
                part.info[node].op, ")");
    }
  }
  return StallLines(parts);
}

std::vector<MemoryHolder> StepQuestion::HoldersOn(const std::string& device) const {
  std::vector<MemoryHolder> holders;
  std::lock_guard<std::mutex> lock(mu_);
  for (const PartAnswer& a : parts_) {
    if (a.report && a.part != nullptr && a.part->device->name() == device)
      holders.insert(holders.end(), a.report->holders.begin(), a.report->holders.end());
  }
  return holders;
}

std::set<std::string> StepQuestion::OnlyWaits() const {
  std::set<std::string> nodes;
  std::lock_guard<std::mutex> lock(mu_);
  for (const PartAnswer& a : parts_) {
    if (!a.report) return {};
    for (const StepReport::Root& r : a.report->roots) {
      // What waits for another part runs when that one has gone on.
      if (!r.takes.key.empty()) continue;
      if (r.waits.empty()) return {};
      nodes.insert(r.waits);
    }
  }
  return nodes;
}

std::vector<std::string> AskAndWait(const std::vector<std::shared_ptr<Executor>>& parts, LocalTransport* transport) {
  auto all_answered = std::make_shared<std::promise<void>>();
  const auto question = std::make_shared<StepQuestion>(parts);
  if (question->Ask(transport, [all_answered](const std::shared_ptr<StepQuestion>&) { all_answered->set_value(); }))
    (void)all_answered->get_future().wait_for(std::chrono::milliseconds(100));
  return question->Lines();
}

std::string StallText(int64_t step_id, const std::string& what, int64_t ms, const std::vector<std::string>& lines) {
  return StrCat("step ", step_id, " (", what, ") has made no progress for ", ms, " ms",
                lines.empty() ? "" : "; it waits for:\n  ", StrJoin(lines, "\n  "));
}

absl::Status DeadlineStatus(int64_t timeout_ms, const std::vector<std::string>& lines) {
  return DeadlineExceeded("the step did not end within ", timeout_ms, " ms", lines.empty() ? "" : "; it waits for:\n  ",
                          StrJoin(lines, "\n  "));
}

}  // namespace troupe
