#include <sstream>

#include "tests/differential/composition.h"
#include "troupe/import_export.h"
#include "troupe/proto/tensor.pb.h"
#include "troupe/strings.h"

namespace troupe::test {
namespace {

// One line and the bytes behind it.
struct Line {
  std::string key, bytes;
  std::vector<std::string> words;
  const std::string& word(size_t i) const {
    static const std::string none;
    return i < words.size() ? words[i] : none;
  }
};

bool ReadLine(std::istream& in, Line* line) {
  std::string text;
  if (!std::getline(in, text)) return false;
  line->words.clear();
  std::istringstream words(text);
  words >> line->key;
  for (std::string w; words >> w;) line->words.push_back(w);
  line->bytes.clear();
  if (line->words.empty() || line->words.back()[0] != '#') return true;
  line->bytes.resize(std::stoul(line->words.back().substr(1)));
  line->words.pop_back();
  in.read(line->bytes.data(), static_cast<std::streamsize>(line->bytes.size()));
  return in.get() == '\n';
}

absl::StatusOr<Tensor> ParseTensor(const std::string& bytes) {
  proto::TensorProto p;
  if (!p.ParseFromString(bytes)) return InvalidArgument("no TensorProto");
  return TensorFromProto(p);
}

}  // namespace

absl::StatusOr<Composition> ReadComposition(std::istream& in) {
  Composition c;
  Line line;
  if (!ReadLine(in, &line)) return NotFound("there are no more cases");
  if (line.key != "case") return InvalidArgument("'", line.key, "' stands where a case should begin");
  c.name = line.word(0);
  while (ReadLine(in, &line)) {
    const bool in_step = !c.steps.empty(), in_gradients = !c.gradients.empty();
    if (line.key == "end") return c;
    if (line.key == "devices") {
      c.devices = std::stoi(line.word(0));
    } else if (line.key == "graph") {
      if (!c.graph.ParseFromString(line.bytes)) return InvalidArgument(c.name, ": no GraphDef");
    } else if (line.key == "gradients") {
      c.gradients.push_back({.name = line.word(0), .may_refuse = line.word(1) == "refusable"});
    } else if (line.key == "y" && in_gradients) {
      c.gradients.back().ys.push_back(line.word(0));
    } else if (line.key == "x" && in_gradients) {
      c.gradients.back().xs.push_back(line.word(0));
      c.gradients.back().connected.push_back(line.word(1) == "yes");
    } else if (line.key == "feed") {
      TROUPE_ASSIGN_OR_RETURN(Tensor value, ParseTensor(line.bytes));
      c.feeds.emplace_back(line.word(0), std::move(value));
    } else if (line.key == "step") {
      c.steps.emplace_back();
    } else if (line.key == "target" && in_step) {
      c.steps.back().targets.push_back(line.word(0));
    } else if (line.key == "fetch" && in_step) {
      TROUPE_ASSIGN_OR_RETURN(Tensor want, ParseTensor(line.bytes));
      c.steps.back().fetches.push_back({line.word(0), std::stod(line.word(1)), std::move(want)});
    } else {
      return InvalidArgument(c.name, ": the line '", line.key, "' has no place here");
    }
  }
  return InvalidArgument(c.name, ": the case has no end");
}

}  // namespace troupe::test
