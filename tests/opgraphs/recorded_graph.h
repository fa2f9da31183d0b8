// Graphs that TensorFlow ran, with what it fed and what it got: a folder each, of
//
//   frozen_model.pb            the GraphDef
//   NAME.placeholder.csv       the value to feed to NAME:0, one element a line, row-major
//   NAME.prediction.csv        the value that fetching NAME:0 must give; NAME.K.prediction.csv: that of NAME:K
//   NAME.placeholder.shape     the dimensions, parted by commas or newlines; a single 0 with one value in the csv is a scalar
//
// Slashes of node names are folders. The folders lie in ${TROUPE_SHARED}/data, or in ../shared/data
// beside the sources.
#ifndef TROUPE_TESTS_OPGRAPHS_RECORDED_GRAPH_H_
#define TROUPE_TESTS_OPGRAPHS_RECORDED_GRAPH_H_

#include <filesystem>
#include <string>
#include <vector>

#include "troupe/status.h"
#include "troupe/tensor.h"

namespace troupe::test {

// A folder with recorded data; empty when this machine does not have it.
std::filesystem::path DataFolder(const std::string& name);

struct RecordedValue {
  std::string name;  // as it stands in the file's name: "a/b" or "a/b.1"
  std::vector<std::string> elements;
  TensorShape shape;

  // The elements in that type. INVALID_ARGUMENT when they are not as many as the shape says, or no
  // numbers.
  absl::StatusOr<Tensor> As(DType dtype) const;
};

struct RecordedGraph {
  std::string name, path;
  std::vector<RecordedValue> feeds, fetches;
};
RecordedGraph ReadRecordedGraph(const std::filesystem::path& root, const std::filesystem::path& folder);
// All graphs below `root`, by name.
std::vector<RecordedGraph> ReadRecordedGraphs(const std::filesystem::path& root);

// "" when type and shape are the same and every element is near: floats within `tolerance`,
// relative or absolute, 0.01 for 16 bit floats, the rest equal.
std::string Difference(const Tensor& got, const Tensor& want, double tolerance);

}  // namespace troupe::test

#endif  // TROUPE_TESTS_OPGRAPHS_RECORDED_GRAPH_H_
