// The documents as the tests see them: pages, their code blocks, and regions of source files.
#ifndef TROUPE_TESTS_DOCS_PAGES_H_
#define TROUPE_TESTS_DOCS_PAGES_H_

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace troupe {

// A file of the source tree.
inline std::string ReadSource(const std::string& path) {
  std::ifstream in(std::string(TROUPE_SOURCE_DIR) + "/" + path);
  BOOST_REQUIRE_MESSAGE(in.good(), "there is no " + path);
  std::ostringstream s;
  s << in.rdbuf();
  return s.str();
}

// The pages below a folder; of docs/ also CONTRIBUTING.md and README.md.
inline std::vector<std::string> Pages(const std::string& below = "docs") {
  namespace fs = std::filesystem;
  std::vector<std::string> pages;
  if (below == "docs") pages = {"CONTRIBUTING.md", "README.md"};
  const fs::path root = TROUPE_SOURCE_DIR;
  for (const auto& entry : fs::recursive_directory_iterator(root / below)) {
    if (entry.path().extension() == ".md") pages.push_back(fs::relative(entry.path(), root).string());
  }
  std::sort(pages.begin(), pages.end());
  return pages;
}

// A block of code, and the comment in the line before it ("<!-- quote FILE REGION -->" has the mark
// "quote FILE REGION").
struct Block {
  std::string language, mark, text;
  int line = 0;
};
inline std::vector<Block> BlocksOf(const std::string& page) {
  std::istringstream in(ReadSource(page));
  std::vector<Block> blocks;
  std::string line, mark;
  bool inside = false;
  for (int number = 1; std::getline(in, line); ++number) {
    if (inside) {
      inside = line != "```";
      if (inside) blocks.back().text += line + "\n";
    } else if (line.starts_with("```")) {
      blocks.push_back({line.substr(3), mark, "", number});
      mark.clear();
      inside = true;
    } else if (line.starts_with("<!-- ") && line.ends_with(" -->")) {
      mark = line.substr(5, line.size() - 9);
    } else if (!line.empty()) {
      mark.clear();
    }
  }
  return blocks;
}
// The block with this mark.
inline std::string BlockOf(const std::string& page, const std::string& mark) {
  for (const Block& b : BlocksOf(page)) {
    if (b.mark == mark) return b.text;
  }
  BOOST_FAIL(page + " has no block with the mark '" + mark + "'");
  return {};
}

// The lines between "// [name]" and "// [/name]" (or, in files of CMake, "# [name]"), without the
// indentation of the first marker; the whole file when `name` is empty.
inline std::string Region(const std::string& path, const std::string& name) {
  if (name.empty()) return ReadSource(path);
  std::istringstream in(ReadSource(path));
  std::string line, text;
  bool inside = false, found = false;
  size_t indent = 0;
  while (std::getline(in, line)) {
    const size_t at = line.find_first_not_of(' ');
    const std::string rest = at == std::string::npos ? "" : line.substr(at);
    if (rest == "// [/" + name + "]" || rest == "# [/" + name + "]") inside = false;
    if (inside) text += (line.size() >= indent ? line.substr(indent) : "") + "\n";
    if (rest == "// [" + name + "]" || rest == "# [" + name + "]") {
      inside = found = true;
      indent = at;
    }
  }
  BOOST_REQUIRE_MESSAGE(found, path + " has no region " + name);
  return text;
}

// True when `actual` is `shown`, in which "..." stands for any text.
inline bool Like(const std::string& actual, const std::string& shown) {
  size_t at = 0, from = 0;
  for (bool first = true;; first = false) {
    const size_t dots = shown.find("...", from);
    const std::string piece = shown.substr(from, dots == std::string::npos ? dots : dots - from);
    const size_t found = dots == std::string::npos && !first && piece.size() <= actual.size() - at
                             ? (actual.ends_with(piece) ? actual.size() - piece.size() : std::string::npos)
                             : actual.find(piece, at);
    if (found == std::string::npos || (first && found != 0)) return false;
    at = found + piece.size();
    if (dots == std::string::npos) return at == actual.size();
    from = dots + 3;
  }
}

}  // namespace troupe

#endif  // TROUPE_TESTS_DOCS_PAGES_H_
