#include "net/play/plan.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <unordered_map>
#include <utility>

#include "net/free_ports.h"
#include "net/play/lines.h"
#include "net/play/settings.h"
#include "net/play/wiring.h"

namespace troupe::play {

struct Addressing {
  // With ports of this machine, one after the other, for processes that have no address.
  static Topology Of(const Topology& given, const std::vector<int>& ports) {
    Topology topology = given;
    auto port = ports.begin();
    for (Part& part : topology.parts_) {
      if (part.Find("at") != nullptr || !HasAddress(part)) continue;
      Setting at{"at", {}, part.at};
      for (int i = 0; i < ProcessesOf(part); ++i) at.words.push_back({StrCat("127.0.0.1:", *port++), part.at});
      part.settings.push_back(std::move(at));
    }
    return topology;
  }
};

namespace {

using std::chrono::milliseconds;

std::string ThisHost() {
  char name[256] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "localhost";
}

bool IsThisHost(const std::string& host) { return HostPort{host, 0}.IsLoopback() || host == ThisHost(); }

std::string JsonText(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

class Planner {
 public:
  Planner(const Topology& topology, const PlayOptions& options) : given_(topology), options_(options) {
    for (const Part& part : topology.parts()) {
      if (part.kind == Kind::kHost) hosts_.emplace(part.name, &part);
    }
  }

  absl::StatusOr<Plan> Make() {
    for (const Part& part : given_.parts()) TROUPE_RETURN_IF_ERROR(CheckHosts(part));
    TROUPE_RETURN_IF_ERROR(FindAddresses());
    TROUPE_RETURN_IF_ERROR(FindCommand());
    const Topology& topology = plan_.topology;
    for (const Part& part : topology.parts()) {
      for (int i = 0; i < ProcessesOf(part); ++i) {
        TROUPE_ASSIGN_OR_RETURN(PlannedProcess process, PlanProcess(part, i));
        plan_.processes.push_back(std::move(process));
      }
    }
    if (const Part& first = topology.parts().front(); first.kind == Kind::kTopology)
      plan_.stop_within = std::chrono::duration_cast<milliseconds>(DurationOf(first, "stop_within", plan_.stop_within));
    return std::move(plan_);
  }

 private:
  // The statement about a host; null for this machine.
  const Part* HostOf(const Part& part, int process) const {
    const Setting* const s = part.Find("host");
    if (s == nullptr) return nullptr;
    const Word& word = s->words[s->words.size() == 1 ? 0 : static_cast<size_t>(process)];
    const auto host = hosts_.find(word.text);
    return host == hosts_.end() ? nullptr : host->second;
  }

  absl::Status CheckHosts(const Part& part) const {
    const Setting* const s = part.Find("host");
    if (s == nullptr) return absl::OkStatus();
    for (size_t i = 0; i < s->words.size(); ++i) {
      const Word& word = s->words[i];
      const Part* const host = HostOf(part, static_cast<int>(i));
      if (host == nullptr && !IsThisHost(word.text)) {
        return given_.Wrong(word.at, StrCat("host: '", CEscape(word.text), "' is not this host (", ThisHost(),
                                            "), and nothing says how to start a program there; a part `host ",
                                            word.text, "` with `launcher: ssh ", word.text, "` does"));
      }
      if (host != nullptr && HasAddress(part) && part.Find("at") == nullptr) {
        return given_.Wrong(word.at, StrCat("host: the free ports of '", word.text, "' are not known here: give '",
                                            part.name, "' its addresses by `at`"));
      }
    }
    return absl::OkStatus();
  }

  // Free ports where none are given, and given ones that are free.
  absl::Status FindAddresses() {
    size_t missing = 0;
    std::set<int> given;
    for (const Part& part : given_.parts()) {
      const Setting* const at = part.Find("at");
      if (at == nullptr && HasAddress(part)) missing += static_cast<size_t>(ProcessesOf(part));
      for (size_t i = 0; at != nullptr && i < at->words.size(); ++i) {
        const HostPort address = HostPort::Parse(at->words[i].text).value();
        given.insert(address.port);
        if (HostOf(part, static_cast<int>(i)) != nullptr) continue;
        const absl::Status free = CheckPort(address);
        if (!free.ok())
          return Annotate(free, StrCat(given_.file(), ":", at->words[i].at.line, ":", at->words[i].at.column));
      }
    }
    // Those that are given are free, too.
    TROUPE_ASSIGN_OR_RETURN(std::vector<int> ports, FreePorts(missing + given.size()));
    std::erase_if(ports, [&](int port) { return given.contains(port); });
    plan_.topology = Addressing::Of(given_, ports);
    // What the processes are told.
    text_ = plan_.topology.ToText();
    if (text_.size() > Topology::kMostBytes)
      return given_.Wrong({1, 1}, StrCat("with its addresses the topology has ", text_.size(), " bytes, and more than ",
                                         Topology::kMostBytes));
    TROUPE_ASSIGN_OR_RETURN(const ClusterSpec cluster, ClusterOf(plan_.topology));
    cluster_ = cluster.ToFlags();
    jobs_ = JobsText();
    return absl::OkStatus();
  }

  absl::Status FindCommand() {
    command_ = options_.command;
    if (!command_.empty()) return absl::OkStatus();
    std::error_code error;
    const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
    if (error) return NotFound("the program itself: ", error.message());
    command_ = {self, "--troupe_part={part}"};
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> CommandOf(const Part& part, int process) const {
    std::vector<std::string> words = command_;
    const bool program = part.kind == Kind::kProgram;
    if (program) words = TextsOf(part, "run");
    for (std::string& word : words) {
      // Words of the options are the caller's, and may have braces of their own.
      if (!program) {
        if (const size_t at = word.find("{part}"); at != std::string::npos)
          word.replace(at, 6, ProcessName(part, process));
        continue;
      }
      TROUPE_ASSIGN_OR_RETURN(word, Fill(part, process, word));
    }
    return words;
  }
  absl::StatusOr<std::string> Fill(const Part& part, int process, const std::string& word) const {
    return FillIn(word, [&](std::string_view name) {
      return ValueIn(plan_.topology, part, process, name, options_.dir.empty() ? "." : options_.dir);
    });
  }

  // TF_CONFIG, with the task of the process if it is one.
  std::string TfConfig(const Part& part, int process) const {
    return StrCat(
        "{\"cluster\": {", jobs_, "}",
        IsJob(part) ? StrCat(", \"task\": {\"type\": ", JsonText(part.name), ", \"index\": ", process, "}") : "", "}");
  }
  std::string JobsText() const {
    std::string jobs;
    for (const Part& job : plan_.topology.parts()) {
      if (!IsJob(job)) continue;
      std::vector<std::string> addresses;
      for (int i = 0; i < ProcessesOf(job); ++i) addresses.push_back(JsonText(AddressOf(job, i)));
      StrAppend(&jobs, jobs.empty() ? "" : ", ", JsonText(job.name), ": [", StrJoin(addresses, ", "), "]");
    }
    return jobs;
  }

  absl::StatusOr<PlannedProcess> PlanProcess(const Part& part, int process) {
    PlannedProcess planned;
    planned.part = part.name;
    planned.kind = part.kind;
    planned.address = HasAddress(part) ? AddressOf(part, process) : "";
    planned.after = TextsOf(part, "after");
    ProcessSpec& spec = planned.spec;
    spec.name = ProcessName(part, process);
    spec.held = !planned.after.empty();
    spec.folder = TextOf(part, "folder");
    spec.service = part.kind != Kind::kProgram || IsYes(part, "service");
    spec.policy = PolicyOf(part, spec.service);
    if (part.kind == Kind::kProgram) {
      planned.ready_line = TextOf(part, "ready");
      planned.anywhere_in_line = true;
    } else {
      planned.ready_line = ReadyLine(spec.name);
    }
    TROUPE_ASSIGN_OR_RETURN(spec.command, CommandOf(part, process));
    spec.environment = {{"TROUPE_PLAY", text_}, {"TROUPE_PART", spec.name}};
    if (!cluster_.empty()) {
      spec.environment.emplace_back("TROUPE_CLUSTER", cluster_);
      spec.environment.emplace_back("TF_CONFIG", TfConfig(part, process));
    }
    if (const std::string target = TargetOf(plan_.topology); !target.empty())
      spec.environment.emplace_back("TROUPE_TARGET", target);
    for (auto& [key, value] : PairsOf(part, "env")) {
      TROUPE_ASSIGN_OR_RETURN(value, Fill(part, process, value));
      spec.environment.emplace_back(key, value);
    }
    if (const Part* const host = HostOf(part, process)) Launch(*host, &spec);
    return planned;
  }

  // By the launcher of a host, whose shell gets it all as one line.
  static void Launch(const Part& host, ProcessSpec* spec) {
    std::string line = spec->folder.empty() ? "" : StrCat("cd ", Quoted(spec->folder), " && ");
    line += "exec env";
    for (const auto& [key, value] : spec->environment) StrAppend(&line, " ", Quoted(StrCat(key, "=", value)));
    for (const std::string& word : spec->command) StrAppend(&line, " ", Quoted(word));
    spec->command = TextsOf(host, "launcher");
    spec->command.push_back(std::move(line));
    spec->environment.clear();
    spec->folder.clear();
  }

  static ProcessPolicy PolicyOf(const Part& part, bool service) {
    ProcessPolicy policy;
    const std::string restart = TextOf(part, "restart", service ? "always" : "on_failure");
    policy.restart = restart == "always"  ? ProcessPolicy::Restart::kAlways
                     : restart == "never" ? ProcessPolicy::Restart::kNever
                                          : ProcessPolicy::Restart::kAfterFailure;
    policy.most_restarts = static_cast<int>(CountOf(part, "most_restarts", policy.most_restarts));
    policy.escalate = TextOf(part, "if_given_up", "stop") == "stop";
    const auto [first, longest] = BackOffOf(part, {policy.min_delay, policy.max_delay});
    policy.min_delay = std::chrono::ceil<milliseconds>(first);
    policy.max_delay = std::chrono::ceil<milliseconds>(longest);
    return policy;
  }

  const Topology& given_;
  const PlayOptions& options_;
  std::unordered_map<std::string_view, const Part*> hosts_;  // by name
  Plan plan_;
  std::string text_, cluster_, jobs_;  // what all processes are told
  std::vector<std::string> command_;
};

}  // namespace

absl::StatusOr<Plan> MakePlan(const Topology& topology, const PlayOptions& options) {
  if (topology.parts().empty()) return InvalidArgument("the topology is empty");
  return Planner(topology, options).Make();
}

absl::StatusOr<std::string> Describe(const Topology& topology, const PlayOptions& options) {
  TROUPE_ASSIGN_OR_RETURN(const Plan plan, MakePlan(topology, options));
  std::string text;
  for (const PlannedProcess& p : plan.processes) {
    StrAppend(&text, p.spec.name, " (", ToString(p.kind), ")", p.address.empty() ? "" : StrCat(" at ", p.address),
              p.after.empty() ? "" : StrCat(", after ", StrJoin(p.after, " and ")), ":");
    for (const std::string& word : p.spec.command) StrAppend(&text, " ", Quoted(word));
    text += "\n";
  }
  return text;
}

}  // namespace troupe::play
