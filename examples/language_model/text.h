// A text as numbers of its symbols, which are words or characters.
#ifndef TROUPE_EXAMPLES_LANGUAGE_MODEL_TEXT_H_
#define TROUPE_EXAMPLES_LANGUAGE_MODEL_TEXT_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "troupe/troupe.h"

namespace language_model {

// The symbols of one text, the most frequent one first.
class Vocabulary {
 public:
  // With words, the end of a line is one, too: "<eos>". Symbols beyond the `most` most frequent
  // ones are "<unk>".
  Vocabulary(const std::string& text, bool words, int64_t most);
  std::vector<int32_t> NumbersOf(const std::string& text) const;
  // A text that has these numbers.
  std::string TextOf(const std::vector<int32_t>& numbers) const;
  int64_t size() const { return static_cast<int64_t>(symbols_.size()); }

 private:
  bool words_;
  std::vector<std::string> symbols_;
  std::unordered_map<std::string, int32_t> numbers_;
  int32_t unknown_ = 0;
};

// A text to learn from when there is none: sentences of a small grammar.
std::string MadeUpText(int64_t sentences, uint64_t seed);

// `batch` streams of a text, side by side: stream b is the b-th of `batch` equal parts.
class Streams {
 public:
  Streams(std::vector<int32_t> numbers, int64_t batch, int64_t time);
  // How often a window of `time` symbols and the one behind it fits into a stream; 0 when the text
  // is too short.
  int64_t windows() const { return windows_; }
  // Window `w`: symbols x [batch, time], and those that follow each of them, y.
  void Window(int64_t w, troupe::Tensor* x, troupe::Tensor* y) const;

 private:
  const std::vector<int32_t> numbers_;
  const int64_t batch_, time_, length_, windows_;
};

}  // namespace language_model

#endif  // TROUPE_EXAMPLES_LANGUAGE_MODEL_TEXT_H_
