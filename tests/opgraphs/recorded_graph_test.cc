// The reader of recorded graphs, which the other files here use.
#include "tests/opgraphs/recorded_graph.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "troupe/strings.h"

namespace troupe::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> Words(const fs::path& file) {
  std::ifstream in(file);
  std::stringstream all;
  all << in.rdbuf();
  std::string text = all.str();
  std::replace(text.begin(), text.end(), ',', ' ');
  std::istringstream words(text);
  std::vector<std::string> out;
  for (std::string w; words >> w;) out.push_back(w);
  return out;
}

RecordedValue ReadValue(const std::string& name, const fs::path& csv) {
  RecordedValue v;
  v.name = name;
  v.elements = Words(csv);
  const std::vector<std::string> dims = Words(fs::path(csv).replace_extension(".shape"));
  if (dims.size() == 1 && dims[0] == "0" && v.elements.size() == 1) return v;
  for (const std::string& d : dims) v.shape.AddDim(std::atoll(d.c_str()));
  return v;
}

// `text` without the ending; empty when it has another one.
std::string Stem(const std::string& text, const std::string& ending) {
  return text.size() > ending.size() && text.ends_with(ending) ? text.substr(0, text.size() - ending.size()) : "";
}

}  // namespace

fs::path DataFolder(const std::string& name) {
  const char* shared = std::getenv("TROUPE_SHARED");
  const fs::path folder = fs::path(shared != nullptr ? shared : TROUPE_SOURCE_DIR "/../shared") / "data" / name;
  return fs::is_directory(folder) ? folder : fs::path();
}

absl::StatusOr<Tensor> RecordedValue::As(DType dtype) const {
  Tensor t(dtype, shape);
  if (t.num_elements() != static_cast<int64_t>(elements.size())) {
    return InvalidArgument(name, " has ", elements.size(), " values, but shape ", shape.DebugString());
  }
  const bool known = VisitNumeric(dtype, false, [&]<class T>() {
    for (size_t i = 0; i < elements.size(); ++i) {
      const std::string& e = elements[i];
      char* end = nullptr;
      double x = e == "true" ? 1 : e == "false" ? 0 : std::strtod(e.c_str(), &end);
      if (end != nullptr && (*end != 0 || e.empty())) return false;
      if constexpr (kDTypeOf<T> == DType::kComplex64 || kDTypeOf<T> == DType::kComplex128) {
        return false;
      } else if constexpr (std::is_same_v<T, bool>) {
        t.data<T>()[i] = x != 0;
      } else if constexpr (std::is_integral_v<T>) {
        t.data<T>()[i] = x == std::floor(x) && e.find_first_of(".eE") == std::string::npos
                             ? static_cast<T>(std::strtoll(e.c_str(), nullptr, 10))
                             : static_cast<T>(x);
      } else {
        t.data<T>()[i] = T(x);
      }
    }
    return true;
  });
  if (!known) return InvalidArgument(name, " has values that are no ", Name(dtype));
  return t;
}

RecordedGraph ReadRecordedGraph(const fs::path& root, const fs::path& folder) {
  RecordedGraph g;
  g.name = fs::relative(folder, root).string();
  g.path = (folder / "frozen_model.pb").string();
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string file = fs::relative(entry.path(), folder).string();
    if (const std::string fed = Stem(file, ".placeholder.csv"); !fed.empty())
      g.feeds.push_back(ReadValue(fed, entry.path()));
    if (const std::string got = Stem(file, ".prediction.csv"); !got.empty())
      g.fetches.push_back(ReadValue(got, entry.path()));
  }
  const auto by_name = [](const RecordedValue& a, const RecordedValue& b) { return a.name < b.name; };
  std::sort(g.feeds.begin(), g.feeds.end(), by_name);
  std::sort(g.fetches.begin(), g.fetches.end(), by_name);
  return g;
}

std::vector<RecordedGraph> ReadRecordedGraphs(const fs::path& root) {
  std::vector<RecordedGraph> graphs;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().filename() == "frozen_model.pb")
      graphs.push_back(ReadRecordedGraph(root, entry.path().parent_path()));
  }
  std::sort(graphs.begin(), graphs.end(),
            [](const RecordedGraph& a, const RecordedGraph& b) { return a.name < b.name; });
  return graphs;
}

std::string Difference(const Tensor& got, const Tensor& want, double tolerance) {
  if (!got.valid()) return "no value";
  if (got.dtype() != want.dtype() || !got.SameShape(want))
    return StrCat(got.DebugString(), " instead of ", want.DebugString());
  if (got.dtype() == DType::kHalf || got.dtype() == DType::kBfloat16) tolerance = std::max(tolerance, 1e-2);
  int64_t wrong = 0, first = -1;
  VisitNumeric(got.dtype(), false, [&]<class T>() {
    for (int64_t i = 0; i < got.num_elements(); ++i) {
      const T a = got.data<T>()[i], b = want.data<T>()[i];
      bool same;
      if constexpr (std::is_integral_v<T> || kDTypeOf<T> == DType::kComplex64 || kDTypeOf<T> == DType::kComplex128) {
        same = a == b;
      } else {
        const double x = static_cast<double>(a), y = static_cast<double>(b);
        same = (std::isnan(x) && std::isnan(y)) || x == y || std::abs(x - y) <= tolerance * std::max(1.0, std::abs(y));
      }
      if (!same && ++wrong == 1) first = i;
    }
    return true;
  });
  return wrong == 0 ? ""
                    : StrCat(wrong, " of ", got.num_elements(), " elements, the first at ", first, ": ",
                             got.DebugString(), " instead of ", want.DebugString());
}

}  // namespace troupe::test
