#include "net/play/settings.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace troupe::play {
namespace {

using std::chrono::microseconds;

constexpr uint32_t Bit(Kind kind) { return 1u << static_cast<int>(kind); }
constexpr uint32_t kServer = Bit(Kind::kServer), kProgram = Bit(Kind::kProgram), kBatcher = Bit(Kind::kBatcher),
                   kActor = Bit(Kind::kActor), kForward = Bit(Kind::kForward), kHost = Bit(Kind::kHost),
                   kTopology = Bit(Kind::kTopology);
constexpr uint32_t kProcesses = kServer | kProgram | kBatcher | kActor;
constexpr int64_t kDayUs = int64_t{24} * 3600 * 1000 * 1000;

using enum ValueType;

// In the order in which the errors list them.
constexpr Rule kRules[] = {
    {"insecure", kTopology, kChoice, 0, 0, "yes,no"},
    {"stop_within", kTopology, kDuration, 1000, kDayUs},
    {"launcher", kHost, kWords, 0, 0, "", kHost},
    {"run", kProgram, kCommand, 0, 0, "", kProgram},
    {"service", kProgram, kChoice, 0, 0, "yes,no"},
    {"ready", kProgram, kWord},
    {"graph", kBatcher, kWord},
    {"saved_model", kBatcher, kWord},
    {"signature", kBatcher, kWord},
    {"init", kBatcher, kWords},
    {"feeds", kBatcher, kWords},
    {"fetches", kBatcher, kWords},
    {"max_batch", kBatcher, kCount, 1, 1 << 30},
    {"allowed_batch_sizes", kBatcher, kCounts, 1, 1 << 30},
    {"max_delay", kBatcher, kDuration, 0, kDayUs},
    {"max_waiting", kBatcher, kCount, 1, 1 << 30},
    {"max_steps", kBatcher, kCount, 1, 1 << 20},
    {"timeout", kBatcher, kDuration, 1000, kDayUs},
    {"factory", kActor, kWord, 0, 0, "", kActor},
    {"with", kActor, kPairs},
    {"uses", kActor, kParts},
    {"in", kActor | kForward, kPart, 0, 0, "", kForward},
    {"to", kForward, kPart, 0, 0, "", kForward},
    {"tasks", kServer | kProgram, kCount, 1, Topology::kMostProcesses},
    {"threads", kServer | kBatcher | kActor, kCount, 1, 1024},
    {"memory", kServer | kBatcher, kBytes},
    {"heartbeat", kServer, kDuration, 10'000, 60'000'000},
    {"host", kProcesses, kHosts},
    {"at", kProcesses, kAddresses},
    {"after", kProcesses, kParts},
    {"restart", kProcesses, kChoice, 0, 0, "always,on_failure,never"},
    {"back_off", kProcesses, kDurations, 0, kDayUs},
    {"most_restarts", kProcesses, kCount, 0, 1'000'000},
    {"if_given_up", kProcesses, kChoice, 0, 0, "stop,go_on"},
    {"env", kProcesses, kPairs},
    {"folder", kProcesses, kWord},
};

std::optional<int64_t> Number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

struct Unit {
  std::string_view name;
  int64_t factor;
};
constexpr Unit kTimes[] = {{"us", 1}, {"ms", 1000}, {"s", 1000 * 1000}, {"m", 60 * 1000 * 1000}};
constexpr Unit kSizes[] = {{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};

// "5s" in the smallest unit; nullopt when it is not of that form, or more than 2^62.
std::optional<int64_t> WithUnit(std::string_view text, std::span<const Unit> units) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = Number(text.substr(0, digits));
  if (!number) return std::nullopt;
  for (const Unit& unit : units) {
    if (text.substr(digits) != unit.name) continue;
    if (*number > (int64_t{1} << 62) / unit.factor) return std::nullopt;
    return *number * unit.factor;
  }
  return std::nullopt;
}

bool IsChoice(std::string_view choices, std::string_view text) {
  const std::vector<std::string> all = StrSplit(choices, ',');
  return std::find(all.begin(), all.end(), text) != all.end();
}

std::string OneOf(std::string_view choices) { return StrJoin(StrSplit(choices, ','), ", "); }

// A time of the rule, as text.
std::string TimeText(int64_t us) {
  for (const Unit& unit : {kTimes[2], kTimes[1]}) {
    if (us > 0 && us % unit.factor == 0) return StrCat(us / unit.factor, unit.name);
  }
  return StrCat(us, "us");
}

// "" when the value is one of the rule's type, else why not.
std::string WhyNot(const Rule& rule, const std::string& text) {
  if (text.empty()) return "the value is empty";
  switch (rule.type) {
    case kCount:
    case kCounts: {
      const auto n = Number(text);
      if (n && *n >= rule.least && *n <= rule.most) return "";
      return StrCat("'", CEscape(text), "' is no whole number from ", rule.least, " to ", rule.most);
    }
    case kBytes: {
      const auto n = WithUnit(text, kSizes);
      if (n && *n > 0) return "";
      return StrCat("'", CEscape(text), "' is no size, as 512MiB: a whole number of KiB, MiB or GiB");
    }
    case kDuration:
    case kDurations: {
      const auto us = WithUnit(text, kTimes);
      if (!us) return StrCat("'", CEscape(text), "' is no time, as 100ms: a whole number of us, ms, s or m");
      if (*us >= rule.least && *us <= rule.most) return "";
      return StrCat(text, " is not from ", TimeText(rule.least), " to ", TimeText(rule.most));
    }
    case kChoice:
      if (IsChoice(rule.choices, text)) return "";
      return StrCat("'", CEscape(text), "' is none of ", OneOf(rule.choices));
    case kPairs: {
      const size_t equal = text.find('=');
      if (equal != std::string::npos && equal > 0) return "";
      return StrCat("'", CEscape(text), "' is not KEY=VALUE");
    }
    case kAddresses: {
      const auto address = HostPort::Parse(text);
      return address.ok() ? "" : std::string(address.status().message());
    }
    default:
      return "";
  }
}

bool TakesOne(ValueType type) {
  return type == kWord || type == kPart || type == kCount || type == kBytes || type == kDuration || type == kChoice;
}

}  // namespace

bool Rule::IsList() const { return !TakesOne(type) && type != kDurations; }

std::span<const Rule> Rules() { return kRules; }

const Rule* FindRule(std::string_view key) {
  const auto* it = std::find_if(std::begin(kRules), std::end(kRules), [&](const Rule& r) { return r.key == key; });
  return it == std::end(kRules) ? nullptr : it;
}

std::string KeysOf(Kind kind) {
  std::vector<std::string_view> keys;
  for (const Rule& r : kRules) {
    if (r.Takes(kind)) keys.push_back(r.key);
  }
  return StrJoin(keys, ", ");
}

absl::Status CheckValues(const Topology& topology, const Rule& rule, const Setting& setting) {
  const std::vector<Word>& words = setting.words;
  if (words.empty()) return topology.Wrong(setting.at, StrCat("'", rule.key, "' has no value"));
  if (TakesOne(rule.type) && words.size() > 1)
    return topology.Wrong(words[1].at, StrCat("'", rule.key, "' has one value; quotes make one of several words"));
  for (const Word& word : words) {
    // A command may have an empty argument.
    if (rule.type == kCommand && &word != &words[0]) continue;
    if (const std::string why = WhyNot(rule, word.text); !why.empty())
      return topology.Wrong(word.at, StrCat(rule.key, ": ", why));
  }
  if (rule.type != kDurations) return absl::OkStatus();
  if (words.size() != 2)
    return topology.Wrong(setting.at, StrCat("'", rule.key, "' has two times, the first and the longest"));
  if (*WithUnit(words[1].text, kTimes) < *WithUnit(words[0].text, kTimes))
    return topology.Wrong(words[1].at, StrCat(rule.key, ": the longest time is shorter than the first"));
  return absl::OkStatus();
}

std::string TextOf(const Part& part, std::string_view key, std::string_view otherwise) {
  const Setting* const s = part.Find(key);
  return s == nullptr ? std::string(otherwise) : s->words[0].text;
}

std::vector<std::string> TextsOf(const Part& part, std::string_view key) {
  std::vector<std::string> texts;
  if (const Setting* const s = part.Find(key)) {
    for (const Word& word : s->words) texts.push_back(word.text);
  }
  return texts;
}

int64_t CountOf(const Part& part, std::string_view key, int64_t otherwise) {
  const Setting* const s = part.Find(key);
  return s == nullptr ? otherwise : Number(s->words[0].text).value_or(otherwise);
}

int64_t BytesOf(const Part& part, std::string_view key, int64_t otherwise) {
  const Setting* const s = part.Find(key);
  return s == nullptr ? otherwise : WithUnit(s->words[0].text, kSizes).value_or(otherwise);
}

microseconds DurationOf(const Part& part, std::string_view key, microseconds otherwise) {
  const Setting* const s = part.Find(key);
  return s == nullptr ? otherwise : microseconds(WithUnit(s->words[0].text, kTimes).value_or(otherwise.count()));
}

std::pair<microseconds, microseconds> BackOffOf(const Part& part, std::pair<microseconds, microseconds> otherwise) {
  const Setting* const s = part.Find("back_off");
  if (s == nullptr) return otherwise;
  const auto us = [&](size_t i) { return microseconds(WithUnit(s->words[i].text, kTimes).value_or(0)); };
  return {us(0), us(1)};
}

std::vector<std::pair<std::string, std::string>> PairsOf(const Part& part, std::string_view key) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& text : TextsOf(part, key)) {
    const size_t equal = text.find('=');
    pairs.emplace_back(text.substr(0, equal), text.substr(equal + 1));
  }
  return pairs;
}

bool IsYes(const Part& part, std::string_view key) { return TextOf(part, key) == "yes"; }

}  // namespace troupe::play
