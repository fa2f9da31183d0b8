// The settings of a topology: which kind of part has which, and what values they take. The table of
// the guide's page is this one.
//
// What reads a value (CountOf and the others) is for topologies that Topology::Parse has checked.
//
// Thread rule: pure functions.
#ifndef TROUPE_NET_PLAY_SETTINGS_H_
#define TROUPE_NET_PLAY_SETTINGS_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/cluster.h"
#include "troupe/play.h"

namespace troupe::play {

enum class ValueType : uint8_t {
  kWord,       // one word, whatever it is
  kWords,      // at least one
  kCommand,    // words with {...} filled in
  kPart,       // the name of a part
  kParts,      // of several
  kHosts,      // "gpu1"
  kAddresses,  // "host:port"
  kPairs,      // KEY=VALUE
  kCount,      // a whole number
  kCounts,     // several
  kBytes,      // "512MiB"
  kDuration,   // "10ms", "5s", "2m"
  kDurations,  // two of them, the second at least the first
  kChoice,     // one of a list
};

struct Rule {
  std::string_view key;
  uint32_t kinds;  // a bit for each Kind
  ValueType type;
  int64_t least = 0, most = 0;    // of kCount and kCounts; of kDuration, in us
  std::string_view choices = {};  // of kChoice, with commas
  uint32_t required = 0;          // the kinds that must have it
  bool Takes(Kind kind) const { return (kinds >> static_cast<int>(kind) & 1) != 0; }
  bool Needs(Kind kind) const { return (required >> static_cast<int>(kind) & 1) != 0; }
  // Given again, its words are added.
  bool IsList() const;
};

std::span<const Rule> Rules();
// Null when no kind has it.
const Rule* FindRule(std::string_view key);
// The keys of a kind: "run, tasks, service".
std::string KeysOf(Kind kind);

// Whether the values are of the rule's type; what they name is not looked up.
absl::Status CheckValues(const Topology& topology, const Rule& rule, const Setting& setting);

std::string TextOf(const Part& part, std::string_view key, std::string_view otherwise = "");
std::vector<std::string> TextsOf(const Part& part, std::string_view key);
int64_t CountOf(const Part& part, std::string_view key, int64_t otherwise);
int64_t BytesOf(const Part& part, std::string_view key, int64_t otherwise);
std::chrono::microseconds DurationOf(const Part& part, std::string_view key, std::chrono::microseconds otherwise);
std::pair<std::chrono::microseconds, std::chrono::microseconds> BackOffOf(
    const Part& part, std::pair<std::chrono::microseconds, std::chrono::microseconds> otherwise);
std::vector<std::pair<std::string, std::string>> PairsOf(const Part& part, std::string_view key);
bool IsYes(const Part& part, std::string_view key);

}  // namespace troupe::play

#endif  // TROUPE_NET_PLAY_SETTINGS_H_
