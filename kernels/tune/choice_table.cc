#include "kernels/tune/choice_table.h"

#include <algorithm>
#include <cmath>

#include "troupe/strings.h"

namespace troupe::tune {
namespace {

// Its index; the number of ways when there is none of this name.
size_t IndexOf(const std::vector<Way>& ways, const std::string& name) {
  return std::find_if(ways.begin(), ways.end(), [&](const Way& w) { return w.name == name; }) - ways.begin();
}

// Whether the way that a file names holds in a mode.
bool HoldsIn(TuningMode mode, const std::vector<Way>& ways, size_t way) {
  return mode != TuningMode::kSameBits || way == 0 || ways[way].same_bits;
}

}  // namespace

Key::Key(const Problem* problem, std::initializer_list<int64_t> numbers) : problem_(problem) {
  std::copy_n(numbers.begin(), std::min<size_t>(numbers.size(), kMostNumbers), numbers_.begin());
  uint64_t h = reinterpret_cast<uintptr_t>(problem);
  for (const int64_t v : numbers) {
    h = (h ^ static_cast<uint64_t>(v)) * 0x9e3779b97f4a7c15;  // the golden ratio
    h ^= h >> 29;
  }
  hash_ = h;
}

std::string Key::Text() const {
  std::string text = StrCat(problem_->op, "(");
  for (size_t i = 0; i < problem_->names.size(); ++i)
    StrAppend(&text, i > 0 ? "," : "", problem_->names[i], "=", numbers_[i]);
  return text + ")";
}

Choice::Choice(const Key& key, std::vector<Way> ways) : key_(key), ways_(std::move(ways)), tried_(ways_.size()) {
  for (std::atomic<int>& c : chosen_) c.store(0, std::memory_order_relaxed);
  for (const TuningMode mode : {TuningMode::kSameBits, TuningMode::kAll}) {
    size_t competing = 0;
    for (size_t i = 0; i < ways_.size(); ++i) competing += i == 0 || Competes(mode, i);
    if (competing > 1) chosen_[static_cast<int>(mode)].store(-1, std::memory_order_relaxed);
  }
}

bool Choice::WantsMore(TuningMode mode, size_t way) const {
  const Tried& t = tried_[way];
  if (way > 0 && !Competes(mode, way)) return false;
  if (t.calls < 2) return true;  // the first may have set something up
  if (t.calls >= kCalls && (t.calls >= kMostCalls || t.spent_ns >= kEnoughNs)) return false;
  int64_t least = t.least_ns;
  for (const Tried& other : tried_) {
    if (other.calls > 0) least = std::min(least, other.least_ns);
  }
  return static_cast<double>(t.least_ns) < (t.calls < kCalls ? kHopeless : kClose) * static_cast<double>(least);
}

int Choice::Begin(TuningMode mode) {
  std::lock_guard<std::mutex> lock(mu_);
  if (const int chosen = Chosen(mode); chosen >= 0) {
    ++tried_[chosen].under_way;
    return chosen;
  }
  int next = 0;
  int least = kMostCalls + 1;
  for (size_t i = 0; i < ways_.size(); ++i) {
    const int begun = tried_[i].calls + tried_[i].under_way;
    if (WantsMore(mode, i) && begun < least) next = static_cast<int>(i), least = begun;
  }
  ++tried_[next].under_way;
  return next;
}

void Choice::Abandon(int way) {
  std::lock_guard<std::mutex> lock(mu_);
  --tried_[way].under_way;
}

int Choice::Best(TuningMode mode) const {
  int best = 0;
  for (size_t i = 1; i < ways_.size(); ++i) {
    if (tried_[i].calls == 0 || !Competes(mode, i)) continue;
    const double gain = best == 0 ? kGain : 1.0;
    if (tried_[best].calls == 0 ||
        static_cast<double>(tried_[i].least_ns) * gain < static_cast<double>(tried_[best].least_ns))
      best = static_cast<int>(i);
  }
  return best;
}

bool Choice::End(TuningMode mode, int way, int64_t ns) {
  std::lock_guard<std::mutex> lock(mu_);
  Tried& t = tried_[way];
  --t.under_way;
  if (Chosen(mode) >= 0) return false;  // another call was the last
  ns = std::max<int64_t>(ns, 1);
  t.least_ns = t.calls == 0 ? ns : std::min(t.least_ns, ns);
  ++t.calls;
  t.spent_ns += ns;
  int64_t& spent = spent_ns_[static_cast<int>(mode)];
  spent += ns;
  bool more = false;
  for (size_t i = 0; i < ways_.size(); ++i) more |= WantsMore(mode, i);
  if (more && spent < kMostNs) return false;
  chosen_[static_cast<int>(mode)].store(Best(mode), std::memory_order_release);
  return true;
}

bool Choice::Take(const SavedChoice& saved) {
  std::lock_guard<std::mutex> lock(mu_);
  const size_t way = IndexOf(ways_, saved.way);
  if (way == ways_.size()) return false;
  for (const auto& [name, us] : saved.times) {
    if (const size_t i = IndexOf(ways_, name); i < ways_.size()) tried_[i].least_ns = std::llround(us * 1e3);
  }
  from_file_ = true;
  for (const TuningMode mode : {TuningMode::kFixed, TuningMode::kSameBits, TuningMode::kAll}) {
    if (HoldsIn(mode, ways_, way))
      chosen_[static_cast<int>(mode)].store(static_cast<int>(way), std::memory_order_release);
  }
  return true;
}

void Choice::NoteNode(std::string_view name, std::string_view op) {
  std::string node = StrCat(name, " (", op, ")");
  std::lock_guard<std::mutex> lock(mu_);
  if (nodes_.size() < kMostNodes && std::find(nodes_.begin(), nodes_.end(), node) == nodes_.end())
    nodes_.push_back(std::move(node));
}

TuningChoice Choice::Describe(TuningMode mode) const {
  std::lock_guard<std::mutex> lock(mu_);
  TuningChoice d;
  d.problem = key_.Text();
  d.nodes = nodes_;
  d.chosen = Chosen(mode);
  d.from_file = from_file_;
  for (size_t i = 0; i < ways_.size(); ++i) {
    d.ways.push_back(
        {ways_[i].name, static_cast<double>(tried_[i].least_ns) / 1e3, tried_[i].calls, i == 0 || ways_[i].same_bits});
  }
  return d;
}

bool Choice::Save(SavedChoice* saved) const {
  std::lock_guard<std::mutex> lock(mu_);
  int chosen = -1;
  // Of all ways rather than of some.
  for (const TuningMode mode : {TuningMode::kSameBits, TuningMode::kAll}) {
    if (const int c = Chosen(mode); c >= 0 && tried_[c].least_ns > 0) chosen = c;
  }
  if (chosen < 0) return false;
  saved->way = ways_[chosen].name;
  saved->times.clear();
  for (size_t i = 0; i < ways_.size(); ++i) {
    if (tried_[i].least_ns > 0) saved->times.emplace_back(ways_[i].name, static_cast<double>(tried_[i].least_ns) / 1e3);
  }
  return true;
}

ChoiceTable::~ChoiceTable() = default;

Choice* ChoiceTable::Find(const Key& key) const {
  // Half of the slots are free, so this ends.
  for (size_t at = key.hash() % kSlots;; at = (at + 1) % kSlots) {
    Choice* const choice = slots_[at].load(std::memory_order_acquire);
    if (choice == nullptr || choice->key() == key) return choice;
  }
}

Choice* ChoiceTable::Add(const Key& key, std::vector<Way> ways) {
  std::lock_guard<std::mutex> lock(mu_);
  if (Choice* known = Find(key)) return known;
  if (all_.size() >= kMost) return nullptr;
  auto made = std::make_unique<Choice>(key, std::move(ways));
  if (!saved_.empty()) {
    if (const auto it = saved_.find(key.Text()); it != saved_.end()) made->Take(it->second);
  }
  size_t at = key.hash() % kSlots;
  while (slots_[at].load(std::memory_order_relaxed) != nullptr) at = (at + 1) % kSlots;
  all_.push_back(std::move(made));
  slots_[at].store(all_.back().get(), std::memory_order_release);
  size_.store(all_.size(), std::memory_order_relaxed);
  return all_.back().get();
}

void ChoiceTable::Learn(SavedChoices saved) {
  std::lock_guard<std::mutex> lock(mu_);
  saved_ = std::move(saved);
  has_saved_.store(!saved_.empty(), std::memory_order_release);
  for (const std::unique_ptr<Choice>& c : all_) {
    if (const auto it = saved_.find(c->key().Text()); it != saved_.end()) c->Take(it->second);
  }
}

int ChoiceTable::LookUp(const Key& key, TuningMode mode, const std::vector<Way>& ways) const {
  const std::string problem = key.Text();
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = saved_.find(problem);
  const size_t way = it == saved_.end() ? ways.size() : IndexOf(ways, it->second.way);
  return way < ways.size() && HoldsIn(mode, ways, way) ? static_cast<int>(way) : 0;
}

std::vector<Choice*> ChoiceTable::All() const {
  std::lock_guard<std::mutex> lock(mu_);
  std::vector<Choice*> all;
  for (const std::unique_ptr<Choice>& c : all_) all.push_back(c.get());
  return all;
}

}  // namespace troupe::tune
