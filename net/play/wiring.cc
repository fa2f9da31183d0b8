#include "net/play/wiring.h"

#include <algorithm>

#include "net/play/settings.h"

namespace troupe::play {
namespace {

bool HasJobs(const Topology& topology) { return std::any_of(topology.parts().begin(), topology.parts().end(), IsJob); }
const Part* FirstServer(const Topology& topology) {
  for (const Part& part : topology.parts()) {
    if (part.kind == Kind::kServer) return &part;
  }
  return nullptr;
}

// {"model", "address"} of "model.address"; the name is "" when there is no dot.
std::pair<std::string_view, std::string_view> OfPart(std::string_view name) {
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return {"", name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

// One of the addresses of a part, or a piece of it.
std::string Piece(const std::string& address, std::string_view what) {
  const auto parsed = HostPort::Parse(address);
  if (what == "address" || !parsed.ok()) return address;
  return what == "host" ? parsed->host : StrCat(parsed->port);
}

}  // namespace

bool HasProcess(const Part& part) {
  if (part.kind == Kind::kActor) return part.Find("in") == nullptr;
  return part.kind == Kind::kServer || part.kind == Kind::kProgram || part.kind == Kind::kBatcher;
}

bool IsJob(const Part& part) {
  return part.kind == Kind::kServer || (part.kind == Kind::kProgram && part.Find("tasks") != nullptr);
}

bool HasAddress(const Part& part) {
  return HasProcess(part) && (part.kind != Kind::kProgram || IsJob(part) || part.Find("at") != nullptr);
}

int ProcessesOf(const Part& part) {
  if (!HasProcess(part)) return 0;
  return IsJob(part) ? static_cast<int>(CountOf(part, "tasks", 1)) : 1;
}

std::string ProcessName(const Part& part, int process) {
  return IsJob(part) ? StrCat(part.name, ":", process) : part.name;
}

std::pair<const Part*, int> FindProcess(const Topology& topology, std::string_view process) {
  for (const Part& part : topology.parts()) {
    for (int i = 0; i < ProcessesOf(part); ++i) {
      if (ProcessName(part, i) == process) return {&part, i};
    }
  }
  return {nullptr, 0};
}

absl::StatusOr<ClusterSpec> ClusterOf(const Topology& topology) {
  ClusterSpec cluster;
  for (const Part& part : topology.parts()) {
    if (!IsJob(part)) continue;
    for (int i = 0; i < ProcessesOf(part); ++i) TROUPE_RETURN_IF_ERROR(cluster.Add({part.name, i}, AddressOf(part, i)));
  }
  return cluster;
}

std::string AddressOf(const Part& part, int process) {
  const Setting* const at = part.Find("at");
  const auto i = static_cast<size_t>(process);
  return at != nullptr && i < at->words.size() ? at->words[i].text : "";
}

absl::StatusOr<std::string> FillIn(std::string_view text, const ValueOf& value) {
  std::string filled;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '{') {
      filled += text[i];
      continue;
    }
    if (text.substr(i).starts_with("{{")) {
      filled += text[i++];
      continue;
    }
    const size_t end = text.find('}', i);
    if (end == std::string_view::npos) return InvalidArgument("'{' without '}'; {{ stands for one {");
    TROUPE_ASSIGN_OR_RETURN(const std::string known, value(text.substr(i + 1, end - i - 1)));
    filled += known;
    i = end;
  }
  return filled;
}

absl::Status MayFillIn(const Topology& topology, const Part& part, std::string_view name) {
  const auto [of, what] = OfPart(name);
  const bool piece = what == "address" || what == "host" || what == "port";
  if (!of.empty() && piece) {
    const Part* const other = topology.Find(of);
    if (other == nullptr) return InvalidArgument("{", name, "}: there is no part '", CEscape(of), "'");
    if (!HasAddress(*other)) return InvalidArgument("{", name, "}: '", of, "' has no address");
    return absl::OkStatus();
  }
  if (of.empty() && (piece || what == "task" || what == "job")) {
    if (piece ? HasAddress(part) : IsJob(part)) return absl::OkStatus();
    return InvalidArgument("{", name, "}: '", part.name, "' has no ",
                           piece ? "address: give it `tasks` or `at`" : "tasks");
  }
  if (what == "cluster" && of.empty()) {
    return HasJobs(topology) ? absl::OkStatus()
                             : InvalidArgument("{cluster}: there is no server, and no program with tasks");
  }
  if (what == "target" && of.empty()) {
    return FirstServer(topology) != nullptr ? absl::OkStatus() : InvalidArgument("{target}: there is no server");
  }
  if (of.empty() && (what == "dir" || what == "part")) return absl::OkStatus();
  return InvalidArgument("'{", CEscape(name),
                         "}' is none of {part}, {job}, {task}, {address}, {host}, {port}, {cluster}, {target}, {dir}, "
                         "{NAME.address}, {NAME.host} and {NAME.port}; {{ stands for one {");
}

absl::StatusOr<std::string> ValueIn(const Topology& topology, const Part& part, int process, std::string_view name,
                                    std::string_view dir) {
  TROUPE_RETURN_IF_ERROR(MayFillIn(topology, part, name));
  const auto [of, what] = OfPart(name);
  if (!of.empty()) {
    const Part& other = *topology.Find(of);
    std::vector<std::string> pieces;
    for (int i = 0; i < ProcessesOf(other); ++i) pieces.push_back(Piece(AddressOf(other, i), what));
    return StrJoin(pieces, ",");
  }
  if (what == "part") return ProcessName(part, process);
  if (what == "job") return part.name;
  if (what == "task") return StrCat(process);
  if (what == "dir") return std::string(dir);
  if (what == "target") return TargetOf(topology);
  if (what == "cluster") {
    TROUPE_ASSIGN_OR_RETURN(const ClusterSpec cluster, ClusterOf(topology));
    return cluster.ToFlags();
  }
  return Piece(AddressOf(part, process), what);
}

std::string TargetOf(const Topology& topology) {
  const Part* const server = FirstServer(topology);
  return server == nullptr ? "" : StrCat("troupe://", AddressOf(*server, 0));
}

}  // namespace troupe::play
