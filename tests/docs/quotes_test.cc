// What the documents quote is what the tests compile.
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::string Read(const std::string& path) {
  std::ifstream in(std::string(TROUPE_SOURCE_DIR) + "/" + path);
  BOOST_REQUIRE_MESSAGE(in.good(), "there is no " + path);
  std::ostringstream s;
  s << in.rdbuf();
  return s.str();
}

// The lines between "// [name]" and "// [/name]", without the indentation of the first marker; the
// whole file when `name` is empty.
std::string Region(const std::string& path, const std::string& name) {
  if (name.empty()) return Read(path);
  std::istringstream in(Read(path));
  std::string line, text;
  bool inside = false, found = false;
  size_t indent = 0;
  while (std::getline(in, line)) {
    const size_t at = line.find_first_not_of(' ');
    const std::string rest = at == std::string::npos ? "" : line.substr(at);
    if (rest == "// [/" + name + "]") inside = false;
    if (inside) text += (line.size() >= indent ? line.substr(indent) : "") + "\n";
    if (rest == "// [" + name + "]") {
      inside = found = true;
      indent = at;
    }
  }
  BOOST_REQUIRE_MESSAGE(found, path + " has no region " + name);
  return text;
}

// Every "<!-- quote PATH [REGION] -->" and the code block after it. Returns how many there are.
int CheckQuotes(const std::string& document) {
  const std::string text = Read(document);
  int quotes = 0;
  for (size_t at = 0; (at = text.find("<!-- quote ", at)) != std::string::npos; ++quotes) {
    const size_t end = text.find(" -->", at);
    std::istringstream words(text.substr(at + 11, end - at - 11));
    std::string path, region;
    words >> path >> region;
    const size_t open = text.find("```cpp\n", end), close = text.find("\n```", open);
    BOOST_REQUIRE_MESSAGE(open != std::string::npos && close != std::string::npos,
                          document + " has no code after the quote of " + path);
    BOOST_TEST(text.substr(open + 7, close + 1 - open - 7) == Region(path, region),
               document + " quotes another " + path + " " + region);
    at = close;
  }
  return quotes;
}

// The program at the top of a header: its comment's lines that are indented by three blanks.
std::string HeadersProgram(const std::string& header) {
  std::istringstream in(Read(header));
  std::string line, text;
  while (std::getline(in, line) && line.starts_with("//")) {
    if (line.starts_with("//   ")) text += line.substr(5) + "\n";
  }
  return text;
}

BOOST_AUTO_TEST_CASE(HeadersShowWhatIsCompiled) {
  for (const char* name :
       {"include/troupe/variable.h", "include/troupe/train/optimizer.h", "include/troupe/functional.h"}) {
    BOOST_TEST(HeadersProgram(name) == Region("tests/docs/headers_test.cc", name),
               std::string(name) + " shows another program than tests/docs/headers_test.cc compiles");
  }
}

BOOST_AUTO_TEST_CASE(DocumentsQuoteWhatIsCompiled) {
  BOOST_TEST(CheckQuotes("README.md") == 1);
  BOOST_TEST(CheckQuotes("docs/add_an_op.md") == 2);
  BOOST_TEST(CheckQuotes("docs/add_an_actor.md") == 2);
}

}  // namespace
