#include "tools/troupe/cluster_plan.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "net/free_ports.h"

namespace troupe::tool {
namespace {

std::string NameOf(const ClusterTask& task) { return StrCat(task.job, ":", task.index); }

std::optional<int64_t> Number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::vector<std::string_view> Split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// "ps=1;worker=2", numbers of tasks; nullopt when it is not of that form.
absl::StatusOr<std::optional<ClusterSpec>> FromCounts(const std::string& text) {
  std::vector<std::pair<std::string, int64_t>> jobs;
  int64_t all = 0;
  for (const std::string_view part : Split(text, ';')) {
    const size_t equal = part.find('=');
    if (equal == std::string_view::npos) return std::nullopt;
    const auto count = Number(part.substr(equal + 1));
    if (!count) return std::nullopt;
    if (*count < 1 || (all += *count) > 1000)
      return InvalidArgument("a job has at least one task, and a local cluster at most 1000: ", text);
    jobs.emplace_back(part.substr(0, equal), *count);
  }
  TROUPE_ASSIGN_OR_RETURN(const std::vector<int> ports, FreePorts(static_cast<size_t>(all)));
  ClusterSpec spec;
  size_t next = 0;
  for (const auto& [job, count] : jobs) {
    for (int i = 0; i < count; ++i) TROUPE_RETURN_IF_ERROR(spec.Add({job, i}, StrCat("127.0.0.1:", ports[next++])));
  }
  return spec;
}

absl::StatusOr<ClusterSpec> ReadCluster(const std::string& text) {
  if (text.find('=') != std::string::npos) {
    TROUPE_ASSIGN_OR_RETURN(std::optional<ClusterSpec> counted, FromCounts(text));
    if (counted) return *std::move(counted);
  }
  TROUPE_ASSIGN_OR_RETURN(ClusterSpec spec, ClusterSpec::FromFlagsOrFile(text));
  for (const auto& [task, address] : spec.tasks()) {
    if (!address.IsLoopback()) {
      return FailedPrecondition("the address ", address.ToString(), " of ", NameOf(task), " is not of this machine ",
                                "alone; a cluster of several machines is started on each of them (docs/cluster.md)");
    }
    if (const absl::Status s = CheckPort(address); !s.ok()) return Annotate(s, NameOf(task));
  }
  return spec;
}

// "worker=..." of a flag that is given for each job.
absl::StatusOr<std::map<std::string, std::string>> ByJob(const std::vector<std::string>& values, const char* flag,
                                                         const ClusterSpec& cluster) {
  std::map<std::string, std::string> by_job;
  for (const std::string& each : values) {
    const size_t equal = each.find('=');
    if (equal == std::string::npos) return InvalidArgument(flag, " '", each, "': it is JOB=...");
    const std::string job = each.substr(0, equal);
    const auto& tasks = cluster.tasks();
    if (std::none_of(tasks.begin(), tasks.end(), [&](const auto& t) { return t.first.job == job; }))
      return InvalidArgument(flag, " '", each, "': the cluster has no job '", job, "'");
    if (!by_job.emplace(job, each.substr(equal + 1)).second)
      return InvalidArgument(flag, ": job '", job, "' is given twice");
  }
  return by_job;
}

absl::StatusOr<ProcessPolicy::Restart> ReadRestart(const std::string& text) {
  if (text == "always") return ProcessPolicy::Restart::kAlways;
  if (text == "on-failure") return ProcessPolicy::Restart::kAfterFailure;
  if (text == "never") return ProcessPolicy::Restart::kNever;
  return InvalidArgument("--restart: '", text, "' is none of always, on-failure, never");
}

std::string Filled(std::string word, const std::vector<std::pair<std::string, std::string>>& values) {
  for (const auto& [name, value] : values) {
    for (size_t at = 0; (at = word.find(name, at)) != std::string::npos; at += value.size())
      word.replace(at, name.size(), value);
  }
  return word;
}

// ROLE[:TASK]@STEP, and [:MS] behind it for one that is frozen.
absl::StatusOr<Blow> ReadBlow(const std::string& text, Blow::Kind kind, const ClusterPlan& plan) {
  const bool freeze = kind == Blow::kFreeze;
  const char* const form = freeze ? "ROLE[:TASK]@STEP[:MS]" : "ROLE[:TASK]@STEP";
  const auto wrong = [&](std::string_view why) { return InvalidArgument(FlagOf(kind), " '", text, "': ", why); };
  const size_t at = text.find('@');
  if (at == std::string::npos) return wrong(StrCat("it is ", form));
  Blow blow;
  blow.kind = kind;
  blow.text = text;
  const std::string who = text.substr(0, at);
  blow.name = who == "chief" ? plan.chief : who.find(':') == std::string::npos ? StrCat(who, ":0") : who;
  const auto parts = Split(std::string_view(text).substr(at + 1), ':');
  const auto step = Number(parts[0]);
  const auto ms = parts.size() > 1 ? Number(parts[1]) : std::optional<int64_t>(1000);
  if (!step || !ms || *ms < 1 || parts.size() > (freeze ? 2u : 1u)) return wrong(StrCat("it is ", form));
  blow.step = *step;
  if (freeze) blow.freeze_ms = *ms;
  if (plan.chief.empty()) return wrong("no program reports steps: name one with --program");
  const auto& all = plan.processes;
  const auto found = std::find_if(all.begin(), all.end(), [&](const ProcessSpec& p) { return p.name == blow.name; });
  if (found == all.end()) return wrong(StrCat("the cluster has no task ", blow.name));
  if (kind == Blow::kJoin || kind == Blow::kLeave) {
    if (blow.name == plan.chief) return wrong("the chief is there from the beginning to the end");
    if (found->service) return wrong("only a program joins and leaves");
  }
  return blow;
}

}  // namespace

std::string_view FlagOf(Blow::Kind kind) {
  constexpr std::string_view kFlags[] = {"--kill", "--freeze", "--join", "--leave"};
  return kFlags[kind];
}

absl::StatusOr<std::vector<std::string>> SplitWords(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool within = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      word += text[++i];
      within = true;
    } else if (quote != 0) {
      c == quote ? static_cast<void>(quote = 0) : static_cast<void>(word += c);
    } else if (c == '\'' || c == '"') {
      quote = c;
      within = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (within) words.push_back(std::exchange(word, ""));
      within = false;
    } else {
      word += c;
      within = true;
    }
  }
  if (quote != 0) return InvalidArgument("the quote ", std::string(1, quote), " is not closed in: ", text);
  if (within) words.push_back(word);
  return words;
}

absl::StatusOr<ClusterPlan> PlanCluster(const ClusterUpFlags& flags) {
  ClusterPlan plan;
  TROUPE_ASSIGN_OR_RETURN(plan.cluster, ReadCluster(flags.cluster));
  TROUPE_ASSIGN_OR_RETURN(const auto programs, ByJob(flags.programs, "--program", plan.cluster));
  TROUPE_ASSIGN_OR_RETURN(const auto restarts, ByJob(flags.restarts, "--restart", plan.cluster));
  std::error_code error;
  const std::string troupe = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return NotFound("the program troupe itself: ", error.message());
  const std::string cluster = plan.cluster.ToFlags();
  for (const auto& [task, address] : plan.cluster.tasks()) {
    ProcessSpec spec;
    spec.name = NameOf(task);
    const auto program = programs.find(task.job);
    if (program == programs.end()) {
      spec.command = {troupe,   "serve",  "--cluster",        cluster,     "--job",
                      task.job, "--task", StrCat(task.index), "--threads", StrCat(flags.threads),
                      "--json"};
      if (flags.heartbeat_ms > 0) spec.command.insert(spec.command.end(), {"--heartbeat", StrCat(flags.heartbeat_ms)});
      spec.service = true;
      spec.policy.restart = ProcessPolicy::Restart::kAlways;
    } else {
      TROUPE_ASSIGN_OR_RETURN(spec.command, SplitWords(program->second));
      if (spec.command.empty()) return InvalidArgument("--program: job '", task.job, "' has an empty command");
      for (std::string& word : spec.command) {
        word = Filled(std::move(word), {{"{cluster}", cluster},
                                        {"{job}", task.job},
                                        {"{task}", StrCat(task.index)},
                                        {"{address}", address.ToString()},
                                        {"{dir}", flags.dir}});
      }
      if (plan.chief.empty()) plan.chief = spec.name;
    }
    if (const auto restart = restarts.find(task.job); restart != restarts.end()) {
      TROUPE_ASSIGN_OR_RETURN(spec.policy.restart, ReadRestart(restart->second));
    }
    spec.policy.most_restarts = flags.most_restarts;
    if (flags.tls) {
      const std::string files = flags.dir + "/tls/";
      spec.environment = {{"TROUPE_TLS_CERTIFICATE", files + "node.crt"},
                          {"TROUPE_TLS_KEY", files + "node.key"},
                          {"TROUPE_TLS_CA_FILE", files + "ca.crt"},
                          {"TROUPE_TLS_CA_FOLDER", ""},
                          {"TROUPE_TLS_PASSPHRASE_FILE", ""},
                          {"TROUPE_TLS_PEER_NAME", ""}};
    }
    plan.processes.push_back(std::move(spec));
    plan.addresses.push_back(address.ToString());
  }
  for (const auto& [kind, texts] : {std::pair(Blow::kKill, &flags.kills), std::pair(Blow::kFreeze, &flags.freezes),
                                    std::pair(Blow::kJoin, &flags.joins), std::pair(Blow::kLeave, &flags.leaves)}) {
    for (const std::string& each : *texts) {
      TROUPE_ASSIGN_OR_RETURN(Blow blow, ReadBlow(each, kind, plan));
      plan.blows.push_back(std::move(blow));
    }
  }
  for (ProcessSpec& spec : plan.processes) {
    const auto joins = std::count_if(plan.blows.begin(), plan.blows.end(),
                                     [&](const Blow& b) { return b.kind == Blow::kJoin && b.name == spec.name; });
    if (joins > 1) return InvalidArgument("--join: ", spec.name, " joins twice");
    spec.held = joins == 1;
  }
  return plan;
}

}  // namespace troupe::tool
