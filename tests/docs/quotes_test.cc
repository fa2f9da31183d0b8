// What the documents quote is what the tests compile.
//
// A block of code in a page stands behind a comment that says where it comes from:
//
//   <!-- quote PATH REGION -->
//   ```cpp
//
// PATH is a file that is compiled and run, REGION the name between its markers "// [REGION]" and
// "// [/REGION]"; without a name it is the whole file. `tools/quotes` copies the regions into the
// pages.
#include <boost/test/unit_test.hpp>
#include <map>
#include <utility>

#include "tests/docs/pages.h"

namespace troupe {
namespace {

BOOST_AUTO_TEST_CASE(pages_quote_what_is_compiled) {
  int quotes = 0;
  for (const std::string& page : Pages()) {
    for (const Block& block : BlocksOf(page)) {
      const std::string place = page + ":" + std::to_string(block.line);
      if (!block.mark.starts_with("quote ")) {
        BOOST_TEST(block.language != "cpp", place + ": a block of C++ that quotes no file");
        continue;
      }
      std::istringstream words(block.mark.substr(6));
      std::string path, region;
      words >> path >> region;
      BOOST_TEST(block.text == Region(path, region), place + " differs from " + path + " " + region);
      ++quotes;
    }
  }
  BOOST_TEST(quotes > 50);
}

// A quote without a block behind it would be compared with nothing.
BOOST_AUTO_TEST_CASE(every_quote_has_a_block) {
  for (const std::string& page : Pages()) {
    int marks = 0, blocks = 0;
    std::istringstream in(ReadSource(page));
    for (std::string line; std::getline(in, line);) marks += line.starts_with("<!-- quote ");
    for (const Block& b : BlocksOf(page)) blocks += b.mark.starts_with("quote ");
    BOOST_TEST(marks == blocks, page);
  }
}

// A link to a file names one that is there, beside its page.
BOOST_AUTO_TEST_CASE(links_lead_to_files) {
  namespace fs = std::filesystem;
  const fs::path root = TROUPE_SOURCE_DIR;
  int links = 0;
  for (const std::string& page : Pages()) {
    std::istringstream in(ReadSource(page));
    bool code = false;
    for (std::string line; std::getline(in, line);) {
      code ^= line.starts_with("```");
      for (size_t at = 0; !code && (at = line.find("](", at)) != std::string::npos; ++at) {
        std::string target = line.substr(at + 2, line.find(')', at) - at - 2);
        target = target.substr(0, target.find('#'));
        // Within the page, elsewhere, or a lambda in a table's cell.
        if (target.empty() || target.find("://") != std::string::npos ||
            target.find_first_of(" {&") != std::string::npos) {
          continue;
        }
        BOOST_TEST(fs::exists((root / page).parent_path() / target), page + " leads to " + target);
        ++links;
      }
    }
  }
  BOOST_TEST(links > 100);
}

// The sample at the top of a header: its comment's lines that are indented by three blanks.
std::string SampleOf(const std::string& header) {
  std::istringstream in(ReadSource(header));
  std::string line, text;
  while (std::getline(in, line) && line.starts_with("//")) {
    if (line.starts_with("//   ")) text += line.substr(5) + "\n";
  }
  return text;
}

// Indented lines that are no program: tables, formulas, a graph's text, a part of a program of
// several processes (examples/play_fall.cc).
const char* const kNoProgram[] = {
    "include/troupe/buffer.h",     "include/troupe/device.h",         "include/troupe/export.h",
    "include/troupe/play.h",       "include/troupe/resource_state.h", "include/troupe/text.h",
    "include/troupe/train/adam.h", "include/troupe/train/adadelta.h", "include/troupe/train/adagrad_da.h",
    "include/troupe/train/ftrl.h", "include/troupe/train/proximal.h", "include/troupe/train/rms_prop.h"};

BOOST_AUTO_TEST_CASE(headers_show_what_is_compiled) {
  namespace fs = std::filesystem;
  int samples = 0;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(TROUPE_SOURCE_DIR) / "include")) {
    const std::string header = fs::relative(entry.path(), TROUPE_SOURCE_DIR).string();
    if (entry.path().extension() != ".h" || std::count(std::begin(kNoProgram), std::end(kNoProgram), header) > 0)
      continue;
    const std::string sample = SampleOf(header);
    if (sample.empty()) continue;
    std::string file = "tests/docs/headers_test.cc";
    if (ReadSource(file).find("// [" + header + "]") == std::string::npos) file = "tests/docs/training_headers_test.cc";
    BOOST_TEST(sample == Region(file, header), header + " shows another program than " + file + " compiles");
    ++samples;
  }
  BOOST_TEST(samples == 42);
}

// The rows of docs/guide/from_tensorflow_1.md are those of from_tensorflow_1_test.cc, where each is
// "// | Python", followed by the lines of C++ that do the same, up to an empty line or one of the
// test.
using Rows = std::vector<std::pair<std::string, std::string>>;

Rows CompiledRows() {
  std::istringstream in(ReadSource("tests/docs/from_tensorflow_1_test.cc"));
  Rows rows;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find_first_not_of(' ');
    const std::string rest = at == std::string::npos ? "" : line.substr(at);
    if (rest.starts_with("// | ")) {
      rows.emplace_back(rest.substr(5), "");
      inside = true;
    } else if (rest.empty() || rest.starts_with("//") || rest.starts_with("all.") || rest.starts_with("BOOST_")) {
      inside = false;
    } else if (inside) {
      rows.back().second += (rows.back().second.empty() ? "" : " ") + rest;
    }
  }
  return rows;
}

Rows ShownRows() {
  std::istringstream in(ReadSource("docs/guide/from_tensorflow_1.md"));
  Rows rows;
  for (std::string line; std::getline(in, line);) {
    const size_t middle = line.find("` | `");
    if (line.starts_with("| `") && line.ends_with("` |") && middle != std::string::npos) {
      rows.emplace_back(line.substr(3, middle - 3), line.substr(middle + 5, line.size() - 3 - middle - 5));
    }
  }
  return rows;
}

BOOST_AUTO_TEST_CASE(the_table_from_tensorflow_is_compiled) {
  const Rows compiled = CompiledRows(), shown = ShownRows();
  BOOST_TEST(compiled.size() >= 60);
  BOOST_TEST(compiled.size() == shown.size());
  for (size_t i = 0; i < std::min(compiled.size(), shown.size()); ++i) {
    BOOST_TEST(shown[i].first == compiled[i].first);
    BOOST_TEST(shown[i].second == compiled[i].second, "the row of " + compiled[i].first);
  }
}

BOOST_AUTO_TEST_CASE(dots_stand_for_any_text) {
  BOOST_TEST(Like("abc", "abc"));
  BOOST_TEST(!Like("abcd", "abc"));
  BOOST_TEST(!Like("xabc", "abc"));
  BOOST_TEST(Like("took 12 us each\n", "took ... us each\n"));
  BOOST_TEST(Like("a and b and c", "a...c"));
  BOOST_TEST(!Like("a and b", "a...c"));
  BOOST_TEST(Like("anything", "..."));
}

}  // namespace
}  // namespace troupe
