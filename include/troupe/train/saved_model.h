// SavedModels: a graph, its signatures and the values of its variables in one folder, for programs
// that only use a model. TensorFlow reads what is written here, and what it writes for sessions
// (tf.compat.v1.saved_model) is read here.
//
//   train::Saver saver(root);  // ... and train
//   train::SavedModelOptions options;
//   options.signatures["serving_default"] = {.inputs = {{"x", x}}, .outputs = {{"y", y}}};
//   absl::Status s = train::WriteSavedModel("mem://m", *session, *root.graph(), &saver, options);
//   Graph graph;
//   absl::StatusOr<train::SavedModel> model = train::ReadSavedModel("mem://m", &graph);
//   if (model.ok() && s.ok()) s = later->Extend(graph);
//   if (model.ok() && s.ok()) s = model->Load(*later);  // the variables' values
//
// Then model->signatures tells what is fed and fetched.
//
// Files: "saved_model.pb" holds the graph and is written last, so that a folder that has it is
// whole; "variables/variables" is a checkpoint (troupe/checkpoint.h); "assets/" holds copies of
// files that the graph reads.
//
// A graph that TensorFlow 2 exported (tf.saved_model.save) consists of functions. It is read, and
// its nodes are refused when a step needs them.
//
// Thread rule: the graph must not change meanwhile; a SavedModel is a plain value.
#ifndef TROUPE_TRAIN_SAVED_MODEL_H_
#define TROUPE_TRAIN_SAVED_MODEL_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "troupe/export.h"
#include "troupe/graph.h"
#include "troupe/names.h"
#include "troupe/session.h"
#include "troupe/train/saver.h"

namespace troupe {
namespace TROUPE_EXPORT train {

// What a program feeds and fetches, by names of its own. The three tensors of a sparse one are
// called KEY/values, KEY/indices and KEY/dense_shape when they are read.
struct ModelSignature {
  std::map<std::string, GraphName> inputs, outputs;  // tensors
  std::string method = "tensorflow/serving/predict";
};

struct SavedModelOptions {
  std::vector<std::string> tags = {"serve"};
  std::map<std::string, ModelSignature> signatures;
  std::string init_op;  // a node that is run whenever the model is loaded; "": none
  // A string tensor that is fed a file's path when the model is loaded, and the file, which is
  // copied. File names must differ.
  std::vector<std::pair<GraphName, std::string>> assets;
};

// `saver`: of the variables that the signatures (without signatures: the graph) and the init op
// use. Null: all these are saved, and the file's graph has the nodes that restore them; what the
// init op sets needs no saver. ALREADY_EXISTS when the folder has a "saved_model.pb"; NOT_FOUND for
// a signature, node or asset that is not there; FAILED_PRECONDITION, naming it, for a variable that
// is used and neither saved nor set by the init op, for one without a value, and for a table that
// the init op does not fill.
absl::Status WriteSavedModel(const std::string& folder, Session& session, const Graph& graph, Saver* saver,
                             const SavedModelOptions& options);

struct SavedModel {
  std::vector<std::string> tags;
  std::map<std::string, ModelSignature> signatures;
  std::string init_op;
  Saver saver;            // empty: there are no variables to restore
  std::string variables;  // the checkpoint's prefix; "": there is none
  Feeds assets;           // paths of the files that came with the model

  // Restores the variables and runs the init op, in a session that has the graph.
  absl::Status Load(Session& session);
};

// Adds the graph with these tags, in any order, to `graph`. NOT_FOUND lists the tags that there
// are; DATA_LOSS for a file that is no SavedModel.
absl::StatusOr<SavedModel> ReadSavedModel(const std::string& folder, Graph* graph,
                                          const std::vector<std::string>& tags = {"serve"});

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_SAVED_MODEL_H_
