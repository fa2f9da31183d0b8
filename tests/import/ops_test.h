// Ops of these tests' own, in the registry that every program has. Their names begin with "Imp" so
// that no kernel's op is meant.
#ifndef TROUPE_TESTS_IMPORT_OPS_TEST_H_
#define TROUPE_TESTS_IMPORT_OPS_TEST_H_

#include <string>

#include "troupe/import_export.h"
#include "troupe/proto/graph.pb.h"

namespace troupe {

// A GraphDef from its text form; the test fails where the text is wrong.
proto::GraphDef ParseGraph(const std::string& text);
// The message of the error that importing `text` into an empty graph gives, or "OK".
std::string ImportMessage(const std::string& text);

}  // namespace troupe

#endif  // TROUPE_TESTS_IMPORT_OPS_TEST_H_
