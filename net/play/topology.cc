// Topologies from text: what is read, and what is asked of it.
#include <algorithm>
#include <cctype>
#include <map>
#include <unordered_map>

#include "graph/core/read_file.h"
#include "net/play/lines.h"
#include "net/play/settings.h"
#include "net/play/wiring.h"
#include "troupe/env.h"

namespace troupe::play {
namespace {

constexpr std::string_view kKinds[] = {"topology", "host", "server", "program", "batcher", "actor", "forward"};
constexpr size_t kMostName = 60;

bool IsName(std::string_view name, Kind kind) {
  const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  const auto rest = [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '_' || (kind == Kind::kHost && (c == '-' || c == '.'));
  };
  return !name.empty() && name.size() <= kMostName && (letter(name[0]) || (kind == Kind::kHost && rest(name[0]))) &&
         std::all_of(name.begin(), name.end(), rest);
}

// Asks a topology, whose lines have been read, whether it makes sense.
class Checker {
 public:
  explicit Checker(const Topology& topology) : topology_(topology) {
    for (size_t i = 0; i < topology.parts().size(); ++i) {
      const Part& part = topology.parts()[i];
      if (part.kind != Kind::kHost && part.kind != Kind::kTopology) numbers_.emplace(part.name, i);
    }
  }

  absl::Status Check() {
    for (const Part& part : topology_.parts()) TROUPE_RETURN_IF_ERROR(CheckSettings(part));
    int processes = 0;
    for (const Part& part : topology_.parts()) {
      TROUPE_RETURN_IF_ERROR(CheckNumbers(part));
      processes += ProcessesOf(part);
      if (processes > Topology::kMostProcesses)
        return Wrong(part.at,
                     StrCat("with '", part.name, "' there are more than ", Topology::kMostProcesses, " processes"));
      TROUPE_RETURN_IF_ERROR(CheckNames(part));
      if (part.kind == Kind::kBatcher) TROUPE_RETURN_IF_ERROR(CheckBatcher(part));
      if (part.kind == Kind::kActor) TROUPE_RETURN_IF_ERROR(CheckActor(part));
      TROUPE_RETURN_IF_ERROR(CheckCommand(part));
      TROUPE_RETURN_IF_ERROR(CheckAddresses(part));
    }
    if (processes == 0)
      return Wrong({1, 1}, "the topology has no part with a process: no server, program, batcher or actor");
    return CheckOrder();
  }

 private:
  absl::Status Wrong(Place at, std::string_view why) const { return topology_.Wrong(at, why); }

  absl::Status CheckSettings(const Part& part) const {
    for (const Setting& s : part.settings) {
      const Rule* const rule = FindRule(s.key);
      if (rule == nullptr || !rule->Takes(part.kind))
        return Wrong(
            s.at, StrCat("a ", ToString(part.kind), " has no setting '", s.key, "'; it may have ", KeysOf(part.kind)));
      TROUPE_RETURN_IF_ERROR(CheckValues(topology_, *rule, s));
    }
    for (const Rule& rule : Rules()) {
      if (rule.Needs(part.kind) && part.Find(rule.key) == nullptr)
        return Wrong(part.at,
                     StrCat("the ", ToString(part.kind), " '", part.name, "' needs the setting '", rule.key, "'"));
    }
    return absl::OkStatus();
  }

  // As many hosts and addresses as processes.
  absl::Status CheckNumbers(const Part& part) const {
    if (!HasProcess(part)) return absl::OkStatus();
    const auto n = static_cast<size_t>(ProcessesOf(part));
    if (const Setting* const at = part.Find("at"); at != nullptr && at->words.size() != n)
      return Wrong(at->at, StrCat("'", part.name, "' has ", n, n == 1 ? " process" : " processes", ", and ",
                                  at->words.size(), " addresses"));
    if (const Setting* const host = part.Find("host");
        host != nullptr && host->words.size() != 1 && host->words.size() != n)
      return Wrong(host->at, StrCat("'", part.name, "' has ", n, n == 1 ? " process" : " processes", ", and ",
                                    host->words.size(), " hosts; one stands for all"));
    return absl::OkStatus();
  }

  // What it names is there, and can be named so.
  absl::Status CheckNames(const Part& part) const {
    for (const Setting& s : part.settings) {
      const ValueType type = FindRule(s.key)->type;
      if (type != ValueType::kPart && type != ValueType::kParts) continue;
      for (const Word& word : s.words) {
        const auto number = numbers_.find(word.text);
        const Part* const other = number == numbers_.end() ? nullptr : &topology_.parts()[number->second];
        if (other == nullptr) return Wrong(word.at, StrCat(s.key, ": there is no part '", CEscape(word.text), "'"));
        if (other == &part) return Wrong(word.at, StrCat(s.key, ": '", part.name, "' is the part itself"));
        TROUPE_RETURN_IF_ERROR(CheckUse(s.key, *other, word));
      }
    }
    return absl::OkStatus();
  }
  absl::Status CheckUse(std::string_view key, const Part& other, const Word& word) const {
    if (key == "after" && !HasProcess(other))
      return Wrong(word.at, StrCat("after: '", word.text, "' has no process of its own"));
    if (key == "in" && other.kind != Kind::kServer)
      return Wrong(word.at, StrCat("in: '", word.text, "' is a ", ToString(other.kind), ", and no server"));
    const bool acts = (other.kind == Kind::kActor && HasProcess(other)) || other.kind == Kind::kBatcher;
    if ((key == "to" || key == "uses") && !acts)
      return Wrong(word.at,
                   StrCat(key, ": '", word.text, "' is neither an actor with a process of its own nor a batcher"));
    return absl::OkStatus();
  }

  absl::Status CheckBatcher(const Part& part) const {
    const Setting* const graph = part.Find("graph");
    const Setting* const model = part.Find("saved_model");
    if ((graph == nullptr) == (model == nullptr))
      return Wrong(part.at, StrCat("the batcher '", part.name, "' needs one of 'graph' and 'saved_model'"));
    if (graph == nullptr) {
      if (const Setting* const init = part.Find("init")) return Wrong(init->at, "init: a saved model has its own");
      return absl::OkStatus();
    }
    for (const char* key : {"feeds", "fetches"}) {
      if (part.Find(key) == nullptr)
        return Wrong(part.at, StrCat("the batcher '", part.name, "' of a graph needs the setting '", key, "'"));
    }
    if (const Setting* const signature = part.Find("signature"))
      return Wrong(signature->at, "signature: a graph has none; name its feeds and fetches");
    return absl::OkStatus();
  }

  absl::Status CheckActor(const Part& part) const {
    if (HasProcess(part)) return absl::OkStatus();
    for (const char* key : {"threads", "host", "at", "after", "env", "folder"}) {
      if (const Setting* const s = part.Find(key))
        return Wrong(s->at, StrCat(key, ": '", part.name, "' is in the process of '", TextOf(part, "in"), "'"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckCommand(const Part& part) const {
    for (const char* key : {"run", "env"}) {
      const Setting* const s = part.Find(key);
      for (const Word& word : s == nullptr ? std::vector<Word>() : s->words) {
        const auto filled = FillIn(word.text, [&](std::string_view name) -> absl::StatusOr<std::string> {
          TROUPE_RETURN_IF_ERROR(MayFillIn(topology_, part, name));
          return std::string();
        });
        if (!filled.ok()) return Wrong(word.at, StrCat(key, ": ", filled.status().message()));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckAddresses(const Part& part) {
    const Setting* const at = part.Find("at");
    for (const Word& word : at == nullptr ? std::vector<Word>() : at->words) {
      const HostPort address = HostPort::Parse(word.text).value();
      if (!address.IsLoopback() && !Insecure())
        return Wrong(word.at, StrCat("at: ", word.text, " is not of this machine alone, and connections are neither ",
                                     "encrypted nor authenticated; `insecure: yes` of the topology says that the ",
                                     "network is trusted"));
      const auto [before, first] = addresses_.try_emplace(address.ToString(), part.name);
      if (!first) return Wrong(word.at, StrCat("at: ", word.text, " is an address of '", before->second, "', too"));
    }
    return absl::OkStatus();
  }
  bool Insecure() const {
    const Part& first = topology_.parts().front();
    return first.kind == Kind::kTopology && IsYes(first, "insecure");
  }

  // No part comes after itself. Those that wait for none are taken away, then those that waited for
  // these alone, and so on: what stays waits for itself. Linear in the words.
  absl::Status CheckOrder() const {
    const std::vector<Part>& parts = topology_.parts();
    std::vector<size_t> left(parts.size());  // how many others each waits for
    std::vector<std::vector<size_t>> waiting(parts.size());
    std::vector<size_t> free;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (const Setting* const after = parts[i].Find("after"); after != nullptr) {
        left[i] = after->words.size();
        for (const Word& word : after->words) waiting[numbers_.at(word.text)].push_back(i);
      }
      if (left[i] == 0) free.push_back(i);
    }
    while (!free.empty()) {
      const size_t gone = free.back();
      free.pop_back();
      for (const size_t other : waiting[gone]) {
        if (--left[other] == 0) free.push_back(other);
      }
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      if (left[i] > 0)
        return Wrong(parts[i].Find("after")->at, StrCat("after: '", parts[i].name, "' would start after itself"));
    }
    return absl::OkStatus();
  }

  const Topology& topology_;
  std::unordered_map<std::string_view, size_t> numbers_;  // of parts, without hosts, by name
  std::map<std::string, std::string> addresses_;          // the part that has them
};

}  // namespace

std::string_view ToString(Kind kind) { return kKinds[static_cast<size_t>(kind)]; }

const Setting* Part::Find(std::string_view key) const {
  const auto it = std::find_if(settings.begin(), settings.end(), [&](const Setting& s) { return s.key == key; });
  return it == settings.end() ? nullptr : &*it;
}

absl::Status Topology::Wrong(Place at, std::string_view why) const { return WrongAt(file_, at, why); }

const Part* Topology::Find(std::string_view name) const {
  const auto it = std::find_if(parts_.begin(), parts_.end(), [&](const Part& p) {
    return p.name == name && p.kind != Kind::kHost && p.kind != Kind::kTopology;
  });
  return it == parts_.end() ? nullptr : &*it;
}

namespace {

// Which parts there are: hosts and others have names of their own.
using Names = std::map<std::pair<bool, std::string>, size_t>;

absl::Status AddPart(const Topology& topology, const Line& line, std::vector<Part>* parts, Names* names) {
  Part part;
  part.at = line.head.at;
  const auto* kind = std::find(std::begin(kKinds), std::end(kKinds), line.head.text);
  if (kind == std::end(kKinds))
    return topology.Wrong(part.at, StrCat("'", CEscape(line.head.text), "' is no kind of part: these are ",
                                          StrJoin(kKinds, ", "), "; settings are indented below their part"));
  part.kind = static_cast<Kind>(kind - std::begin(kKinds));
  if (line.words.empty()) return topology.Wrong(part.at, StrCat("the ", *kind, " needs a name"));
  if (line.words.size() > 1)
    return topology.Wrong(line.words[1].at, StrCat("a ", *kind, " has one name; its settings are indented below it"));
  part.name = line.words[0].text;
  if (!IsName(part.name, part.kind))
    return topology.Wrong(line.words[0].at,
                          StrCat("'", CEscape(part.name), "' is no name: it begins with a letter, and has ",
                                 "letters, digits and _, at most ", kMostName));
  if (part.kind == Kind::kTopology && !parts->empty())
    return topology.Wrong(part.at, "the topology's own settings come first, and once");
  if (part.kind != Kind::kTopology) {
    const auto [at, is_new] = names->try_emplace({part.kind == Kind::kHost, part.name}, parts->size());
    const Part& other = is_new ? part : (*parts)[at->second];
    if (!is_new)
      return topology.Wrong(line.words[0].at, StrCat("the ", ToString(other.kind), " of line ", other.at.line,
                                                     " has the name '", part.name, "', too"));
  }
  parts->push_back(std::move(part));
  return absl::OkStatus();
}

absl::Status AddSetting(const Topology& topology, Line line, std::vector<Part>* parts) {
  if (parts->empty()) return topology.Wrong(line.head.at, "a setting stands below its part, and there is none yet");
  std::vector<Setting>& settings = parts->back().settings;
  const auto it =
      std::find_if(settings.begin(), settings.end(), [&](const auto& s) { return s.key == line.head.text; });
  if (it == settings.end()) {
    settings.push_back({line.head.text, std::move(line.words), line.head.at});
    return absl::OkStatus();
  }
  const Rule* const rule = FindRule(line.head.text);
  if (rule != nullptr && !rule->IsList())
    return topology.Wrong(line.head.at, StrCat("'", line.head.text, "' is given in line ", it->at.line, ", too"));
  it->words.insert(it->words.end(), line.words.begin(), line.words.end());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Topology> Topology::Parse(std::string_view text, std::string_view file) {
  Topology topology;
  topology.file_ = file;
  if (text.size() > kMostBytes)
    return topology.Wrong({1, 1}, StrCat("a topology has at most ", kMostBytes, " bytes, not ", text.size()));
  TROUPE_ASSIGN_OR_RETURN(std::vector<Line> lines, ReadLines(text, file));
  Names names;
  for (Line& line : lines) {
    const bool setting = line.setting;
    TROUPE_RETURN_IF_ERROR(setting ? AddSetting(topology, std::move(line), &topology.parts_)
                                   : AddPart(topology, line, &topology.parts_, &names));
  }
  if (topology.parts_.empty()) return topology.Wrong({1, 1}, "the topology is empty");
  TROUPE_RETURN_IF_ERROR(Checker(topology).Check());
  return topology;
}

absl::StatusOr<Topology> Topology::Read(const std::string& path) {
  // One byte more than may be: then Parse says so.
  TROUPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMostBytes + 1));
  return Parse(text, path);
}

absl::StatusOr<Topology> Topology::OfThisProcess() {
  const auto text = ProcessVariables()("TROUPE_PLAY");
  if (!text) return NotFound("TROUPE_PLAY is not set: the process was not started as a part of a topology");
  return Parse(*text, "TROUPE_PLAY");
}

std::string Topology::ToText() const {
  std::string text;
  for (const Part& part : parts_) {
    StrAppend(&text, ToString(part.kind), " ", part.name, "\n");
    for (const Setting& s : part.settings) {
      StrAppend(&text, "  ", s.key, ":");
      for (const Word& word : s.words) StrAppend(&text, " ", Quoted(word.text));
      text += "\n";
    }
  }
  return text;
}

}  // namespace troupe::play
