// Graphs in text form for the tests of passes, and the few ops that they are made of.
//
// Ops that the library defines are used as they are; "Test..." ops are defined here, so that a pass
// sees exactly the traits that a case is about.
#ifndef TROUPE_TESTS_PASSES_GRAPHS_H_
#define TROUPE_TESTS_PASSES_GRAPHS_H_

#include <memory>
#include <string>
#include <string_view>

#include "troupe/graph.h"

namespace troupe {

// The graph of `text`; a test failure when it cannot be read.
std::unique_ptr<Graph> MustParse(std::string_view text);
// The lines of `text` without blanks around them, empty lines and comments, sorted: two texts of
// one graph are equal then.
std::string SortedLines(std::string_view text);
// The graph as sorted lines.
std::string SortedText(const Graph& graph);

}  // namespace troupe

#endif  // TROUPE_TESTS_PASSES_GRAPHS_H_
