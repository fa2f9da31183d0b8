// SavedModels for `troupe run`: the folder's graph, and the names that a signature gives to what is
// fed and fetched.
#ifndef TROUPE_TOOLS_TROUPE_SAVED_MODEL_H_
#define TROUPE_TOOLS_TROUPE_SAVED_MODEL_H_

#include <string>
#include <vector>

#include "tools/troupe/commands.h"
#include "troupe/graph.h"
#include "troupe/train/saved_model.h"

namespace troupe::tool {

// Whether `path` is the folder of a SavedModel.
bool IsSavedModel(const std::string& path);

// Reads the graph with --tags into `graph`, and replaces the keys of the signature in `flags` by
// the names of their tensors; other names stay, and are those of the graph. Without fetches and
// targets all outputs of the signature are fetched. `labels` gets what each fetch is called in the
// output: its key, or its name. The signature is --signature, else "serving_default", else the only
// one. NOT_FOUND lists the signatures that there are.
absl::StatusOr<train::SavedModel> LoadSavedModel(Graph* graph, RunFlags* flags, std::vector<std::string>* labels);

}  // namespace troupe::tool

#endif  // TROUPE_TOOLS_TROUPE_SAVED_MODEL_H_
