#include "text.h"

#include <algorithm>
#include <map>
#include <random>

namespace language_model {
namespace {

constexpr char kEnd[] = "<eos>", kUnknown[] = "<unk>";

// Calls f(symbol) for each.
template <class F>
void ForEachSymbol(const std::string& text, bool words, F&& f) {
  if (!words) {
    for (const char c : text) f(std::string(1, c));
    return;
  }
  std::string word;
  for (const char c : text) {
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') {
      word += c;
      continue;
    }
    if (!word.empty()) f(word);
    word.clear();
    if (c == '\n') f(kEnd);
  }
  if (!word.empty()) f(word);
}

}  // namespace

Vocabulary::Vocabulary(const std::string& text, bool words, int64_t most) : words_(words) {
  std::map<std::string, int64_t> counts;
  ForEachSymbol(text, words, [&](const std::string& symbol) { ++counts[symbol]; });
  std::vector<std::pair<int64_t, std::string>> by_count;
  for (const auto& [symbol, count] : counts) by_count.emplace_back(-count, symbol);
  std::sort(by_count.begin(), by_count.end());
  for (const auto& [count, symbol] : by_count) {
    if (static_cast<int64_t>(symbols_.size()) + 1 >= most && symbol != kUnknown) continue;
    symbols_.push_back(symbol);
  }
  if (std::find(symbols_.begin(), symbols_.end(), kUnknown) == symbols_.end()) symbols_.push_back(kUnknown);
  for (size_t i = 0; i < symbols_.size(); ++i) numbers_[symbols_[i]] = static_cast<int32_t>(i);
  unknown_ = numbers_[kUnknown];
}

std::vector<int32_t> Vocabulary::NumbersOf(const std::string& text) const {
  std::vector<int32_t> numbers;
  ForEachSymbol(text, words_, [&](const std::string& symbol) {
    const auto it = numbers_.find(symbol);
    numbers.push_back(it == numbers_.end() ? unknown_ : it->second);
  });
  return numbers;
}

std::string Vocabulary::TextOf(const std::vector<int32_t>& numbers) const {
  std::string text;
  for (const int32_t n : numbers) {
    const std::string& symbol = symbols_[static_cast<size_t>(n)];
    if (!words_ && symbol != kUnknown) {
      text += symbol;
    } else if (symbol == kEnd) {
      text += '\n';
    } else {
      if (!text.empty() && text.back() != '\n') text += ' ';
      text += symbol;
    }
  }
  return text;
}

std::string MadeUpText(int64_t sentences, uint64_t seed) {
  const std::vector<std::vector<std::string>> words = {{"the", "a", "every", "some"},
                                                       {"small", "old", "red", "quiet"},
                                                       {"actor", "tensor", "queue", "graph"},
                                                       {"sends", "finds", "holds", "reads"}};
  std::mt19937_64 random(seed);
  const auto one_of = [&](size_t kind) { return words[kind][random() % words[kind].size()]; };
  std::string text;
  for (int64_t i = 0; i < sentences; ++i) {
    const auto noun = [&] { return one_of(0) + " " + (random() % 2 == 0 ? one_of(1) + " " : "") + one_of(2); };
    text += noun() + " " + one_of(3) + " ";
    text += noun() + " .\n";
  }
  return text;
}

Streams::Streams(std::vector<int32_t> numbers, int64_t batch, int64_t time)
    : numbers_(std::move(numbers)),
      batch_(batch),
      time_(time),
      length_(static_cast<int64_t>(numbers_.size()) / batch),
      windows_(std::max<int64_t>(0, (length_ - 1) / time)) {}

void Streams::Window(int64_t w, troupe::Tensor* x, troupe::Tensor* y) const {
  *x = troupe::Tensor(troupe::DType::kInt32, {batch_, time_});
  *y = troupe::Tensor(troupe::DType::kInt32, {batch_, time_});
  for (int64_t b = 0; b < batch_; ++b) {
    const int32_t* const from = numbers_.data() + b * length_ + w * time_;
    std::copy_n(from, time_, x->data<int32_t>() + b * time_);
    std::copy_n(from + 1, time_, y->data<int32_t>() + b * time_);
  }
}

}  // namespace language_model
