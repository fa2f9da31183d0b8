#include <sstream>

#include "tests/cases/case_file.h"
#include "tests/differential/composition.h"
#include "troupe/strings.h"

namespace troupe::test {
namespace {

// A line: its first word, the words behind it, and the text from the second or third word on.
struct Line {
  std::string key, text;
  std::vector<std::string> words;
  const std::string& word(size_t i) const {
    static const std::string none;
    return i < words.size() ? words[i] : none;
  }
  // What stands behind `n` of the words.
  std::string Behind(size_t n) const {
    size_t at = 0;
    for (size_t i = 0; i < n && at != std::string::npos; ++i) at = text.find(' ', at == 0 ? 0 : at + 1);
    return at == std::string::npos ? "" : text.substr(n == 0 ? 0 : at + 1);
  }
};

bool ReadLine(std::istream& in, Line* line) {
  std::string text;
  do {
    if (!std::getline(in, text)) return false;
  } while (text.empty() || text[0] == '#' || text[0] == '@');
  const size_t space = text.find(' ');
  line->key = text.substr(0, space);
  line->text = space == std::string::npos ? "" : text.substr(space + 1);
  line->words = StrSplit(line->text, ' ');
  return true;
}

// One line of a case that has begun; "" or what is wrong.
std::string Take(const Line& line, Composition* c) {
  const bool in_step = !c->steps.empty(), in_gradients = !c->gradients.empty();
  if (line.key == "devices") {
    c->devices = std::stoi(line.word(0));
  } else if (line.key == "versions") {
    c->graph.mutable_versions()->set_producer(std::stoi(line.word(0)));
    c->graph.mutable_versions()->set_min_consumer(std::stoi(line.word(1)));
  } else if (line.key == "node") {
    *c->graph.add_node() = ParseNode(line.text);
  } else if (line.key == "gradients") {
    c->gradients.push_back({.name = line.word(0), .may_refuse = line.word(1) == "refusable"});
  } else if (line.key == "y" && in_gradients) {
    c->gradients.back().ys.push_back(line.word(0));
  } else if (line.key == "x" && in_gradients) {
    c->gradients.back().xs.push_back(line.word(0));
    c->gradients.back().connected.push_back(line.word(1) == "yes");
  } else if (line.key == "feed") {
    c->feeds.emplace_back(line.word(0), ParseTensor(line.Behind(1)));
  } else if (line.key == "step") {
    c->steps.emplace_back();
  } else if (line.key == "target" && in_step) {
    c->steps.back().targets.push_back(line.word(0));
  } else if (line.key == "fetch" && in_step) {
    c->steps.back().fetches.push_back({line.word(0), std::stod(line.word(1)), ParseTensor(line.Behind(2))});
  } else {
    return StrCat("the line '", line.key, "' has no place here");
  }
  return "";
}

}  // namespace

absl::StatusOr<Composition> ReadComposition(std::istream& in) {
  Composition c;
  Line line;
  if (!ReadLine(in, &line)) return NotFound("there are no more cases");
  if (line.key != "case") return InvalidArgument("'", line.key, "' stands where a case should begin");
  c.name = line.word(0);
  while (ReadLine(in, &line)) {
    if (line.key == "end") return c;
    std::string wrong;
    try {
      wrong = Take(line, &c);
    } catch (const std::exception& e) {
      wrong = e.what();
    }
    if (!wrong.empty()) return InvalidArgument(c.name, ": ", wrong);
  }
  return InvalidArgument(c.name, ": the case has no end");
}

}  // namespace troupe::test
