// Clusters from environment variables: TF_CONFIG and those of Slurm.
#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "net/json.h"
#include "troupe/cluster.h"

namespace troupe {
namespace {

// A number of digits alone; nullopt for anything else, and for one above `most`.
std::optional<int> Number(std::string_view digits, int most) {
  int n = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  const bool good = !digits.empty() && digits[0] != '-' && error == std::errc() && end == digits.data() + digits.size();
  return good && n <= most ? std::optional<int>(n) : std::nullopt;
}

absl::Status AddJob(const std::string& job, const JsonValue& tasks, ClusterSpec* spec) {
  const auto add = [&](int index, const JsonValue& address) {
    if (address.kind != JsonValue::Kind::kString) return address.Wrong("an address is a string, \"host:port\"");
    const absl::Status added = spec->Add({job, index}, address.text);
    return added.ok() ? added : address.Wrong(MessageOf(added));
  };
  if (tasks.kind == JsonValue::Kind::kArray) {
    for (size_t i = 0; i < tasks.items.size(); ++i) TROUPE_RETURN_IF_ERROR(add(static_cast<int>(i), tasks.items[i]));
    return absl::OkStatus();
  }
  if (tasks.kind != JsonValue::Kind::kObject)
    return tasks.Wrong("the tasks of a job are a list of addresses, or an object {\"index\": \"address\"}");
  for (const auto& [key, address] : tasks.members) {
    const std::optional<int> index = Number(key, ClusterSpec::kMostIndex);
    if (!index) return address.Wrong(StrCat("the key '", CEscape(key), "' is no number of a task"));
    TROUPE_RETURN_IF_ERROR(add(*index, address));
  }
  return absl::OkStatus();
}

absl::StatusOr<ServerSpec> ReadTfConfig(std::string_view text) {
  TROUPE_ASSIGN_OR_RETURN(const JsonValue root, ParseJson(text));
  const JsonValue* const cluster = root.Find("cluster");
  if (cluster == nullptr || cluster->kind != JsonValue::Kind::kObject)
    return (cluster == nullptr ? root : *cluster).Wrong("an object \"cluster\" is expected");
  ServerSpec spec;
  for (const auto& [job, tasks] : cluster->members) TROUPE_RETURN_IF_ERROR(AddJob(job, tasks, &spec.cluster));
  if (spec.cluster.empty()) return cluster->Wrong("the cluster has no task");
  const JsonValue* const task = root.Find("task");
  if (task == nullptr || task->kind != JsonValue::Kind::kObject)
    return (task == nullptr ? root : *task).Wrong("an object \"task\" is expected");
  const JsonValue* const type = task->Find("type");
  if (type == nullptr || type->kind != JsonValue::Kind::kString)
    return (type == nullptr ? *task : *type).Wrong("the task needs a \"type\", the name of its job");
  const JsonValue* const index = task->Find("index");
  const bool written =
      index != nullptr && (index->kind == JsonValue::Kind::kNumber || index->kind == JsonValue::Kind::kString);
  const std::optional<int> number = written ? Number(index->text, ClusterSpec::kMostIndex) : std::nullopt;
  if (!number) return (index == nullptr ? *task : *index).Wrong("the task needs an \"index\", its number");
  spec.task = {type->text, *number};
  const absl::StatusOr<HostPort> address = spec.cluster.AddressOf(spec.task);
  if (!address.ok()) return task->Wrong(MessageOf(address.status()));
  return spec;
}

absl::StatusOr<std::string> Needed(const ReadVariable& read, const char* name) {
  std::optional<std::string> value = read(name);
  if (!value) return NotFound("the environment variable ", name, " is not set");
  return *std::move(value);
}

// Hosts of a node list, one after the other.
class NodeList {
 public:
  explicit NodeList(std::string_view text) : text_(text) {}
  absl::StatusOr<std::vector<std::string>> Read() {
    if (text_.empty()) return Wrong("the list is empty");
    for (;;) {
      TROUPE_RETURN_IF_ERROR(Element());
      if (at_ == text_.size()) return std::move(hosts_);
      ++at_;  // the comma
    }
  }

 private:
  // The most hosts of a list, which ranges make long in a few characters.
  static constexpr size_t kMost = ClusterSpec::kMostTasks;
  absl::Status Wrong(std::string_view why) const { return InvalidArgument("column ", at_ + 1, ": ", why); }

  // Text with any number of brackets, up to a comma or the end.
  absl::Status Element() {
    std::vector<std::string> made{""};
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != ',') {
      const char c = text_[at_];
      if (c == '[') {
        TROUPE_RETURN_IF_ERROR(Brackets(&made));
        continue;
      }
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
      if (!letter && c != '-' && c != '.' && c != '_') return Wrong("this character is in no name of a host");
      for (std::string& host : made) host.push_back(c);
      ++at_;
    }
    if (at_ == begin) return Wrong("the name of a host is missing");
    if (hosts_.size() + made.size() > kMost) return Wrong("there are too many hosts");
    for (std::string& host : made) hosts_.push_back(std::move(host));
    return absl::OkStatus();
  }
  // "[01-04,7]": each of what is made so far is followed by each number, in as many digits as the
  // range begins with.
  absl::Status Brackets(std::vector<std::string>* made) {
    ++at_;
    std::vector<std::string> numbers;
    for (;;) {
      const std::string_view first = Digits();
      std::string_view last = first;
      if (at_ < text_.size() && text_[at_] == '-') {
        ++at_;
        last = Digits();
      }
      constexpr int kLargest = 999999999;
      const std::optional<int> from = Number(first, kLargest), to = Number(last, kLargest);
      if (!from || !to) return Wrong("a number of at most nine digits is missing");
      if (*to < *from) return Wrong("the range ends before it begins");
      if (static_cast<size_t>(*to - *from) >= kMost - std::min(kMost, numbers.size()))
        return Wrong("there are too many hosts");
      for (int n = *from; n <= *to; ++n) {
        const std::string digits = StrCat(n);
        numbers.push_back(std::string(first.size() - std::min(first.size(), digits.size()), '0') + digits);
      }
      if (at_ == text_.size()) return Wrong("']' is missing");
      if (text_[at_] == ']') break;
      if (text_[at_] != ',') return Wrong("',' or ']' is missing");
      ++at_;
    }
    if (numbers.size() * made->size() > kMost) return Wrong("there are too many hosts");
    ++at_;
    std::vector<std::string> all;
    for (const std::string& before : *made) {
      for (const std::string& n : numbers) all.push_back(before + n);
    }
    *made = std::move(all);
    return absl::OkStatus();
  }
  std::string_view Digits() {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return text_.substr(begin, at_ - begin);
  }

  const std::string_view text_;
  size_t at_ = 0;
  std::vector<std::string> hosts_;
};

// "2(x3),1": three nodes with two tasks each, one with one.
absl::StatusOr<std::vector<int>> ReadTasksPerNode(std::string_view text) {
  std::vector<int> counts;
  size_t column = 1;
  for (const std::string& part : StrSplit(text, ',')) {
    const size_t open = part.find("(x");
    const bool times = open != std::string::npos && part.back() == ')';
    const std::optional<int> tasks = Number(times ? std::string_view(part).substr(0, open) : part, 1 << 16);
    const std::optional<int> nodes =
        times ? Number(std::string_view(part).substr(open + 2, part.size() - open - 3), 1 << 16) : 1;
    if (!tasks || !nodes || counts.size() + static_cast<size_t>(*nodes) > ClusterSpec::kMostTasks)
      return InvalidArgument("column ", column, ": '", CEscape(part), "' is no number of tasks such as 2 or 2(x3)");
    counts.insert(counts.end(), static_cast<size_t>(*nodes), *tasks);
    column += part.size() + 1;
  }
  return counts;
}

absl::StatusOr<int> ReadCount(const ReadVariable& read, const char* name) {
  TROUPE_ASSIGN_OR_RETURN(const std::string text, Needed(read, name));
  const std::optional<int> n = Number(text, static_cast<int>(ClusterSpec::kMostTasks));
  if (!n) return InvalidArgument(name, "='", CEscape(text), "' is no number from 0 to ", ClusterSpec::kMostTasks);
  return *n;
}

// How many tasks each node has.
absl::StatusOr<std::vector<int>> SpreadOverNodes(int tasks, size_t nodes, const ReadVariable& read) {
  constexpr const char* kName = "SLURM_TASKS_PER_NODE";
  std::vector<int> counts;
  if (const auto text = read(kName)) {
    auto given = ReadTasksPerNode(*text);
    if (!given.ok()) return Annotate(given.status(), kName);
    counts = *std::move(given);
  } else {
    for (size_t i = 0; i < nodes; ++i)
      counts.push_back(tasks / static_cast<int>(nodes) + (i < static_cast<size_t>(tasks) % nodes ? 1 : 0));
  }
  int64_t sum = 0;
  for (const int n : counts) sum += n;
  if (counts.size() != nodes || sum != tasks) {
    return InvalidArgument(kName, " has ", sum, " tasks on ", counts.size(), " nodes, but SLURM_NTASKS is ", tasks,
                           " and SLURM_JOB_NODELIST has ", nodes, " nodes");
  }
  return counts;
}

}  // namespace

ReadVariable ProcessVariables() {
  return [](const char* name) -> std::optional<std::string> {
    const char* const value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

absl::StatusOr<ServerSpec> ServerSpecFromTfConfig(const ReadVariable& read) {
  TROUPE_ASSIGN_OR_RETURN(const std::string text, Needed(read, "TF_CONFIG"));
  auto spec = ReadTfConfig(text);
  return spec.ok() ? spec : Annotate(spec.status(), "TF_CONFIG");
}

absl::StatusOr<std::vector<std::string>> ExpandNodeList(std::string_view list) { return NodeList(list).Read(); }

absl::StatusOr<ServerSpec> ServerSpecFromSlurm(const SlurmOptions& options, const ReadVariable& read) {
  TROUPE_ASSIGN_OR_RETURN(const std::string list, Needed(read, "SLURM_JOB_NODELIST"));
  const absl::StatusOr<std::vector<std::string>> hosts = ExpandNodeList(list);
  if (!hosts.ok()) return Annotate(hosts.status(), "SLURM_JOB_NODELIST");
  TROUPE_ASSIGN_OR_RETURN(const int tasks, ReadCount(read, "SLURM_NTASKS"));
  TROUPE_ASSIGN_OR_RETURN(const int rank, ReadCount(read, "SLURM_PROCID"));
  if (rank >= tasks) return InvalidArgument("SLURM_PROCID is ", rank, ", but SLURM_NTASKS is ", tasks);
  TROUPE_ASSIGN_OR_RETURN(const std::vector<int> counts, SpreadOverNodes(tasks, hosts->size(), read));
  std::vector<std::pair<std::string, int>> jobs = options.jobs;
  if (jobs.empty()) jobs = {{"worker", tasks}};
  int64_t wanted = 0;
  for (const auto& [job, n] : jobs) {
    if (n < 0) return InvalidArgument("job '", CEscape(job), "' is to have ", n, " tasks");
    wanted += n;
  }
  if (wanted != tasks) return InvalidArgument("the jobs have ", wanted, " tasks, but SLURM_NTASKS is ", tasks);
  ServerSpec spec;
  size_t job = 0;
  int index = 0, number = 0;
  for (size_t node = 0; node < counts.size(); ++node) {
    for (int i = 0; i < counts[node]; ++i, ++index, ++number) {
      while (index == jobs[job].second) ++job, index = 0;
      const int64_t port = int64_t{options.first_port} + i;
      TROUPE_RETURN_IF_ERROR(spec.cluster.Add({jobs[job].first, index}, StrCat((*hosts)[node], ":", port)));
      if (number == rank) spec.task = {jobs[job].first, index};
    }
  }
  return spec;
}

}  // namespace troupe
