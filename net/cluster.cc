#include "troupe/cluster.h"

#include <algorithm>
#include <charconv>

#include "graph/core/read_file.h"

namespace troupe {
namespace {

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsJobName(std::string_view name) {
  constexpr size_t kMost = 255;
  return !name.empty() && name.size() <= kMost && IsLetter(name[0]) &&
         std::all_of(name.begin(), name.end(), [](char c) { return IsLetter(c) || IsDigit(c) || c == '_'; });
}

// A number of digits alone, at most `most`; -1 for anything else.
int ReadNumber(std::string_view text, int most) {
  int n = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  const bool good = error == std::errc() && end == text.data() + text.size() && IsDigit(text[0]) && n <= most;
  return good ? n : -1;
}

// Text as it stands in a message: of wrong input, which may be long.
std::string Shown(std::string_view text) {
  constexpr size_t kMost = 80;
  return StrCat("'", CEscape(text.substr(0, kMost)), text.size() > kMost ? "..." : "", "'");
}

}  // namespace

std::string ClusterTask::ToString() const { return StrCat("/job:", job, "/replica:0/task:", index); }

std::string HostPort::ToString() const {
  const bool v6 = host.find(':') != std::string::npos;
  return StrCat(v6 ? "[" : "", host, v6 ? "]" : "", ":", port);
}

bool HostPort::IsLoopback() const {
  if (host == "localhost" || host == "::1") return true;
  const std::vector<std::string> parts = StrSplit(host, '.');
  return parts.size() == 4 && parts[0] == "127" &&
         std::all_of(parts.begin(), parts.end(), [](const std::string& p) { return ReadNumber(p, 255) >= 0; });
}

absl::StatusOr<HostPort> HostPort::Parse(std::string_view text) {
  const auto wrong = [&](std::string_view why) {
    return InvalidArgument("the address ", Shown(text), " is not host:port: ", why);
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong("there is no port");
  HostPort address;
  std::string_view host = text.substr(0, colon);
  const bool brackets = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  constexpr size_t kMostHost = 255;
  if (host.empty() || host.size() > kMostHost) return wrong("the host has no name, or one of more than 255 characters");
  for (const char c : host) {
    const bool good = IsLetter(c) || IsDigit(c) || c == '.' || c == '-' || (brackets ? c == ':' || c == '%' : c == '_');
    if (!good && c == ':') return wrong("an address of IPv6 stands in brackets, as in [::1]:2222");
    if (!good) return wrong(StrCat("the host has the character '", CEscape(std::string_view(&c, 1)), "'"));
  }
  const int port = ReadNumber(text.substr(colon + 1), 65535);
  if (port < 1) return wrong("a port is a number from 1 to 65535");
  address.host = host;
  address.port = static_cast<uint16_t>(port);
  return address;
}

absl::Status ClusterSpec::Add(const ClusterTask& task, std::string_view address) {
  if (!IsJobName(task.job)) return InvalidArgument("the job ", Shown(task.job), " is no name: [A-Za-z][A-Za-z0-9_]*");
  if (task.index < 0 || task.index > kMostIndex)
    return InvalidArgument("task ", task.index, " of job '", task.job, "' is not between 0 and ", kMostIndex);
  TROUPE_ASSIGN_OR_RETURN(const HostPort parsed, HostPort::Parse(address));
  if (tasks_.contains(task)) return AlreadyExists("task ", task.index, " of job '", task.job, "' is given twice");
  if (const auto other = by_address_.find(parsed.ToString()); other != by_address_.end())
    return AlreadyExists("the address ", parsed.ToString(), " is that of ", other->second.ToString(), " already");
  if (tasks_.size() >= kMostTasks) return InvalidArgument("a cluster has at most ", kMostTasks, " tasks");
  tasks_.emplace(task, parsed);
  by_address_.emplace(parsed.ToString(), task);
  return absl::OkStatus();
}

absl::StatusOr<HostPort> ClusterSpec::AddressOf(const ClusterTask& task) const {
  const auto it = tasks_.find(task);
  if (it != tasks_.end()) return it->second;
  constexpr size_t kMostNamed = 20;
  std::vector<std::string> same_job, jobs;
  for (const auto& [other, at] : tasks_) {
    if (other.job == task.job && same_job.size() < kMostNamed) same_job.push_back(StrCat(other.index));
    if ((jobs.empty() || jobs.back() != other.job) && jobs.size() < kMostNamed) jobs.push_back(other.job);
  }
  if (same_job.empty())
    return NotFound("the cluster has no job ", Shown(task.job), "; its jobs are: ", StrJoin(jobs, ", "));
  return NotFound("job '", task.job, "' has no task ", task.index, "; it has: ", StrJoin(same_job, ", "));
}

uint64_t ClusterSpec::Id() const {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : ToFlags()) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return hash;
}

std::string ClusterSpec::ToFlags() const {
  std::string text;
  const ClusterTask* before = nullptr;
  for (const auto& [task, address] : tasks_) {
    const bool same_job = before != nullptr && before->job == task.job;
    if (!same_job) StrAppend(&text, before == nullptr ? "" : ";", task.job, "=");
    if (same_job) StrAppend(&text, ",");
    const int expected = same_job ? before->index + 1 : 0;
    if (task.index != expected) StrAppend(&text, task.index, "@");
    StrAppend(&text, address.ToString());
    before = &task;
  }
  return text;
}

absl::StatusOr<ClusterSpec> ClusterSpec::FromFlags(std::string_view text) {
  ClusterSpec spec;
  size_t at = 0;
  const auto wrong = [&](size_t place, std::string_view why) {
    return InvalidArgument("cluster, column ", place + 1, ": ", why);
  };
  // Up to one of these signs, or the end.
  const auto piece = [&](std::string_view ends) {
    const size_t begin = at;
    at = std::min(text.find_first_of(ends, at), text.size());
    return text.substr(begin, at - begin);
  };
  std::vector<std::string> jobs;
  while (at < text.size()) {
    const size_t job_at = at;
    const std::string job(piece("=;,"));
    if (at == text.size() || text[at] != '=') return wrong(at, StrCat("'=' is missing after the job ", Shown(job)));
    if (std::find(jobs.begin(), jobs.end(), job) != jobs.end())
      return wrong(job_at, StrCat("job ", Shown(job), " is given twice"));
    jobs.push_back(job);
    int next = 0;
    do {
      ++at;  // the '=' or ','
      const size_t begin = at;
      std::string_view address = piece(",;");
      if (const size_t sign = address.find('@'); sign != std::string_view::npos) {
        next = ReadNumber(address.substr(0, sign), kMostIndex);
        if (next < 0) return wrong(begin, StrCat("a number of a task stands before '@', 0 to ", kMostIndex));
        address = address.substr(sign + 1);
      }
      const absl::Status added = spec.Add({job, next}, address);
      if (!added.ok()) return wrong(begin, std::string_view(added.message().data(), added.message().size()));
      ++next;
    } while (at < text.size() && text[at] == ',');
    if (at < text.size() && ++at == text.size()) return wrong(at, "a job is missing after ';'");
  }
  if (spec.empty()) return wrong(0, "there is no task; a cluster looks like ps=host:port;worker=host:port,host:port");
  return spec;
}

absl::StatusOr<ClusterSpec> ClusterSpec::FromFlagsOrFile(const std::string& text) {
  if (text.find('=') != std::string::npos) return FromFlags(text);
  constexpr uint64_t kMost = 64 << 20;
  TROUPE_ASSIGN_OR_RETURN(const std::string file, ReadFile(text, kMost));
  std::string_view words = file;
  constexpr std::string_view kBlanks = " \t\r\n";
  words.remove_prefix(std::min(words.find_first_not_of(kBlanks), words.size()));
  words = words.substr(0, words.find_last_not_of(kBlanks) + 1);
  // The text form may have angles in place of braces; no address has either.
  auto spec = words.find_first_of("{<") != std::string_view::npos ? FromText(file) : FromFlags(words);
  return spec.ok() ? std::move(spec) : Annotate(spec.status(), text);
}

}  // namespace troupe
