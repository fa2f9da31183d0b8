// Goes on with a training that TensorFlow began: reads the graph and the checkpoint that its Saver
// wrote, runs the graph's own training op, and saves checkpoints that TensorFlow reads.
//
//   go_on_from_tensorflow RUN/model-1000 --steps 500 --model_dir RUN
//
// The graph, RUN/model-1000.meta, must name the training op and the loss: by the collections that
// TensorFlow has for them ("train_op", "losses"), or by --train_op and --loss. It must feed itself,
// from constants, files or queues, whose runners are started.
#include <cstdio>

#include "examples/common/training.h"

namespace {

using namespace troupe;  // NOLINT: an example reads better with it

struct Flags : example::Flags {
  std::string checkpoint, train_op, loss;
};

// The option, or else the first entry of the collection.
absl::StatusOr<std::string> NameOf(Graph* graph, const std::string& option, const std::string& collection) {
  if (!option.empty()) return option;
  const std::vector<std::string>& names = graph->collection(collection);
  if (!names.empty()) return names[0];
  return NotFound("the graph has nothing in its collection '", collection, "': give --",
                  collection == "losses" ? "loss" : collection);
}

absl::Status Run(const Flags& flags) {
  Graph graph;
  TROUPE_ASSIGN_OR_RETURN(train::Saver theirs, train::ReadMetaGraph(flags.checkpoint + ".meta", &graph));
  TROUPE_ASSIGN_OR_RETURN(const std::string train_op, NameOf(&graph, flags.train_op, "train_op"));
  TROUPE_ASSIGN_OR_RETURN(const std::string loss, NameOf(&graph, flags.loss, "losses"));
  const Scope root = Scope::NewRootScope(&graph);
  if (!flags.json) {
    std::printf("%d nodes; training runs '%s', the loss is '%s'\n", graph.num_nodes() - 2, train_op.c_str(),
                loss.c_str());
  }
  Session* session = nullptr;
  example::Job job;
  job.unit = "steps";
  job.begin = [&](Session& s) { return theirs.Restore(s, flags.checkpoint); };
  job.start = [&](Session& s) {
    session = &s;
    return absl::OkStatus();
  };
  job.step = [&](int64_t, int64_t* units) -> absl::StatusOr<double> {
    std::vector<Tensor> out;
    TROUPE_RETURN_IF_ERROR(session->Run({}, {loss}, {train_op}, &out));
    ++*units;
    if (out[0].num_elements() != 1 || out[0].dtype() != DType::kFloat)
      return InvalidArgument("the loss '", loss, "' is no float32 scalar, but ", out[0].TypeAndShape());
    return static_cast<double>(out[0].data<float>()[0]);
  };
  return example::Train(flags, root, job);
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  flags.steps = 100;
  CLI::App app("Goes on with a training that TensorFlow began", "go_on_from_tensorflow");
  example::AddFlags(&app, &flags);
  app.add_option("checkpoint", flags.checkpoint, "what TensorFlow's Saver returned: the files without their endings")
      ->required();
  app.add_option("--train_op", flags.train_op, "a node; else what the graph has in its collection train_op");
  app.add_option("--loss", flags.loss, "a tensor; else what the graph has in its collection losses");
  return example::Main(&app, argc, argv, [&] { return Run(flags); });
}
