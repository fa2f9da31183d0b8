#include "tools/troupe/saved_model.h"

#include <filesystem>

namespace troupe::tool {
namespace {

using train::ModelSignature;
using train::SavedModel;

constexpr char kDefault[] = "serving_default";

std::string Keys(const std::map<std::string, GraphName>& tensors) {
  std::string keys;
  for (const auto& [key, tensor] : tensors) StrAppend(&keys, keys.empty() ? "" : ", ", key);
  return keys;
}

// "'add' (x, y -> sum), 'init' ( -> done)".
std::string Describe(const SavedModel& model) {
  std::string text;
  for (const auto& [name, s] : model.signatures)
    StrAppend(&text, text.empty() ? "" : ", ", "'", name, "' (", Keys(s.inputs), " -> ", Keys(s.outputs), ")");
  return text.empty() ? "none" : text;
}

// Null when the model has no signature that was not asked for by name.
absl::StatusOr<const ModelSignature*> Choose(const SavedModel& model, const std::string& name) {
  if (const auto it = model.signatures.find(name.empty() ? kDefault : name); it != model.signatures.end())
    return &it->second;
  if (name.empty() && model.signatures.size() == 1) return &model.signatures.begin()->second;
  if (name.empty() && model.signatures.empty()) return nullptr;
  return NotFound(name.empty() ? "no signature is named" : StrCat("there is no signature '", name, "'"),
                  "; the model has ", Describe(model));
}

}  // namespace

bool IsSavedModel(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path folder(path);
  return std::filesystem::exists(folder / "saved_model.pb", ignored) ||
         std::filesystem::exists(folder / "saved_model.pbtxt", ignored);
}

absl::StatusOr<SavedModel> LoadSavedModel(Graph* graph, RunFlags* flags, std::vector<std::string>* labels) {
  const std::vector<std::string> tags = flags->tags.empty() ? std::vector<std::string>{"serve"} : flags->tags;
  TROUPE_ASSIGN_OR_RETURN(SavedModel model, train::ReadSavedModel(flags->graph, graph, tags));
  TROUPE_ASSIGN_OR_RETURN(const ModelSignature* const signature, Choose(model, flags->signature));
  *labels = flags->fetches;
  if (signature == nullptr) return model;
  for (std::string& feed : flags->feeds) {
    const size_t equals = feed.find('=');
    if (equals == std::string::npos) continue;  // what is wrong with it is said where it is read
    if (const auto in = signature->inputs.find(feed.substr(0, equals)); in != signature->inputs.end())
      feed = in->second.text() + feed.substr(equals);
  }
  for (std::string& fetch : flags->fetches) {
    if (const auto out = signature->outputs.find(fetch); out != signature->outputs.end()) fetch = out->second.text();
  }
  if (flags->fetches.empty() && flags->targets.empty()) {
    for (const auto& [key, tensor] : signature->outputs) {
      labels->push_back(key);
      flags->fetches.push_back(tensor.text());
    }
  }
  return model;
}

}  // namespace troupe::tool
