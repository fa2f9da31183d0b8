// Drives a fuzz target without libFuzzer: with files that are good, and with what becomes of them
// when bytes are flipped, cut off, repeated or exchanged. The same inputs each time.
//
//   files_seeds RUNS SEEDS...    tries each seed, then RUNS changed ones; ends with 0
//
// SEEDS is a folder, each of whose files is a seed, or a text of recorded cases (tests/cases), each
// of whose lines has one: its first string. The first byte of an input says how the target reads
// the rest, so each seed is tried behind all of them. What a target finds ends the program (abort,
// a signal, a sanitizer).
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr size_t kLongest = 16384;

void Try(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

// The first string of a line, with its escapes undone. False when there is none.
bool FirstString(const std::string& line, std::string* text) {
  const size_t quote = line.find('"');
  if (quote == std::string::npos) return false;
  text->clear();
  for (size_t i = quote + 1; i < line.size() && line[i] != '"'; ++i) {
    if (line[i] != '\\' || i + 1 == line.size()) {
      *text += line[i];
    } else if (line[i + 1] >= '0' && line[i + 1] <= '7') {
      *text += static_cast<char>(std::strtol(line.substr(i + 1, 3).c_str(), nullptr, 8));
      i += 3;
    } else {
      const char c = line[++i];
      *text += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
    }
  }
  return !text->empty();
}

void ReadCases(const std::string& path, std::vector<std::string>* seeds) {
  std::ifstream file(path);
  std::set<std::string> seen;
  std::string text;
  for (std::string line; std::getline(file, line);) {
    if (FirstString(line, &text) && text.size() <= kLongest && seen.insert(text).second) seeds->push_back(text);
  }
}

std::vector<std::string> ReadSeeds(const std::string& folder) {
  std::vector<std::string> paths, seeds;
  if (std::filesystem::is_regular_file(folder)) {
    ReadCases(folder, &seeds);
    return seeds;
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    if (seeds.back().size() > kLongest) seeds.back().resize(kLongest);
  }
  return seeds;
}

// One change, at a random place.
void Change(const std::vector<std::string>& seeds, std::mt19937& random, std::string* input) {
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  if (input->empty()) {
    input->push_back(static_cast<char>(below(256)));
    return;
  }
  const size_t at = below(input->size());
  switch (below(6)) {
    case 0:
      (*input)[at] = static_cast<char>((*input)[at] ^ (1 << below(8)));
      break;
    case 1:
      (*input)[at] = static_cast<char>(below(256));
      break;
    case 2: {  // a number at one of its ends
      constexpr uint8_t kEnds[] = {0, 1, 0x7f, 0x80, 0xff};
      (*input)[at] = static_cast<char>(kEnds[below(std::size(kEnds))]);
      break;
    }
    case 3:
      input->resize(at);
      break;
    case 4: {  // a piece comes once more
      const std::string piece = input->substr(at, 1 + below(16));
      input->insert(below(input->size()), piece);
      break;
    }
    default: {  // the end of another one
      const std::string& other = seeds[below(seeds.size())];
      if (!other.empty()) *input = input->substr(0, at) + other.substr(below(other.size()));
    }
  }
  if (input->size() > kLongest) input->resize(kLongest);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "%s RUNS SEEDS...\n", argv[0]);
    return 2;
  }
  std::vector<std::string> seeds;
  for (int i = 2; i < argc; ++i) {
    const std::vector<std::string> more = ReadSeeds(argv[i]);
    if (more.empty()) {
      std::fprintf(stderr, "%s: no seeds\n", argv[i]);
      return 1;
    }
    seeds.insert(seeds.end(), more.begin(), more.end());
  }
  constexpr int kForms = 12;  // as many as a target tells apart, or more
  size_t tried = 0;
  for (const std::string& seed : seeds) {
    for (int form = 0; form < kForms; ++form, ++tried) Try(static_cast<char>(form) + seed);
  }
  const int runs = std::atoi(argv[1]);
  std::mt19937 random(1);
  for (int i = 0; i < runs; ++i, ++tried) {
    std::string input = seeds[random() % seeds.size()];
    for (size_t changes = 1 + random() % 4; changes > 0; --changes) Change(seeds, random, &input);
    Try(static_cast<char>(random() % (2 * kForms)) + input);
  }
  std::printf("%zu inputs of %zu seeds\n", tried, seeds.size());
  return 0;
}
