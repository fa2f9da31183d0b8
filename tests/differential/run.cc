#include <algorithm>
#include <limits>
#include <map>

#include "tests/differential/compare.h"
#include "tests/differential/composition.h"
#include "troupe/gradients.h"
#include "troupe/graph.h"
#include "troupe/import_export.h"
#include "troupe/strings.h"
#include "troupe/text.h"

namespace troupe::test {
namespace {

// Tensors that the case calls @NAME:k.
using Added = std::map<std::string, NodeOut>;

absl::StatusOr<NodeOut> FindTensor(const Graph& graph, const Added& added, const std::string& name) {
  if (const auto it = added.find(name); it != added.end()) return it->second;
  TROUPE_ASSIGN_OR_RETURN(const auto parsed, ParseTensorName(name));
  Node* node = graph.Find(parsed.first);
  if (node == nullptr) return NotFound("the graph has no node '", parsed.first, "'");
  return NodeOut{node, parsed.second};
}

bool IsZero(const Tensor& t) {
  return VisitNumeric(t.dtype(), false, [&]<class T>() {
    return std::all_of(t.flat<T>().begin(), t.flat<T>().end(), [](T v) { return v == T(0); });
  });
}

// Adds one set of gradients and checks that there is none where there should be none.
absl::Status AddGradientsOf(const GradientsOf& wanted, Graph* graph, Added* added, std::vector<std::string>* wrong) {
  std::vector<NodeOut> ys, xs, grads;
  for (const std::string& y : wanted.ys) {
    TROUPE_ASSIGN_OR_RETURN(ys.emplace_back(), FindTensor(*graph, *added, y));
  }
  for (const std::string& x : wanted.xs) {
    TROUPE_ASSIGN_OR_RETURN(xs.emplace_back(), FindTensor(*graph, *added, x));
  }
  GradientOptions options;
  options.unconnected = Unconnected::kNone;
  TROUPE_RETURN_IF_ERROR(AddGradients(graph, ys, xs, {}, options, &grads));
  for (size_t i = 0; i < grads.size(); ++i) {
    if (grads[i].node != nullptr) added->emplace(StrCat("@", wanted.name, ":", i), grads[i]);
    if (grads[i].node != nullptr && !wanted.connected[i] && !wanted.may_refuse)
      wrong->push_back(StrCat("gradients ", wanted.name, ": x ", wanted.xs[i], " has one, but no y depends on it"));
  }
  return absl::OkStatus();
}

}  // namespace

const std::vector<Mode>& Modes() {
  static const std::vector<Mode>& modes = *[] {
    auto* list = new std::vector<Mode>;
    const auto add = [&](const char* name, auto set) {
      SessionOptions options;
      options.runtime_options.threads = 1;
      options.operation_timeout_ms = 20000;
      set(&options);
      list->push_back({.name = name, .options = options});
    };
    add("as_it_is", [](SessionOptions* o) {});
    add("no_passes", [](SessionOptions* o) { o->fold_constants = o->merge_common_subexpressions = o->fuse = false; });
    add("only_fuse", [](SessionOptions* o) { o->fold_constants = o->merge_common_subexpressions = false; });
    add("two_threads", [](SessionOptions* o) { o->runtime_options.threads = 2; });
    add("token_messages", [](SessionOptions* o) { o->token_messages = true; });
    add("three_devices", [](SessionOptions* o) { o->runtime_options.cpu_devices = 3; });
    add("three_devices_plain", [](SessionOptions* o) {
      o->runtime_options.cpu_devices = 3;
      o->fold_constants = o->merge_common_subexpressions = o->fuse = o->schedule_recvs = false;
    });
    add("three_devices_bytes", [](SessionOptions* o) {
      o->runtime_options.cpu_devices = 3;
      o->wire_messages = true;
    });
    add("cost_model", [](SessionOptions* o) {
      o->runtime_options.cpu_devices = 3;
      o->runtime_options.threads = 2;
      o->use_cost_model = true;
    });
    add("text_form", [](SessionOptions* o) { o->runtime_options.cpu_devices = 3; });
    list->back().through_text = true;
    return list;
  }();
  return modes;
}

std::vector<std::string> RunComposition(const Composition& c, const Mode& mode) {
  if (mode.options.runtime_options.cpu_devices < c.devices) return {};
  std::vector<std::string> wrong;
  const auto failed = [&](std::string_view where, const absl::Status& s) {
    wrong.push_back(StrCat(where, ": ", s.ToString()));
    return wrong;
  };
  Graph graph;
  if (auto imported = ImportGraphDef(c.graph, {}, &graph); !imported.ok()) return failed("import", imported.status());
  Added added;
  for (const GradientsOf& g : c.gradients) {
    const absl::Status s = AddGradientsOf(g, &graph, &added, &wrong);
    // What depends on gradients that were refused has no value to compare.
    if (!s.ok()) return g.may_refuse ? wrong : failed(StrCat("gradients ", g.name), s);
  }
  auto session = Session::Create(mode.options);
  if (!session.ok()) return failed("session", session.status());
  absl::Status extended;
  if (mode.through_text) {
    GraphTextOptions every_element;
    every_element.max_elements = std::numeric_limits<int>::max();
    auto read = ParseGraphText(GraphText(graph, every_element));
    if (!read.ok()) return failed("text", read.status());
    extended = (*session)->Extend(**read);
  } else {
    extended = (*session)->Extend(graph);
  }
  if (!extended.ok()) return failed("extend", extended);
  for (size_t k = 0; k < c.steps.size(); ++k) {
    const Step& step = c.steps[k];
    Names names;
    std::vector<const Fetch*> fetches;
    for (const Fetch& f : step.fetches) {
      const auto it = added.find(f.name);
      if (it == added.end() && f.name[0] == '@') {
        // Zeros may be left out: whoever asks for zeros has them then.
        if (!IsZero(f.want)) wrong.push_back(StrCat(f.name, " is not connected"));
        continue;
      }
      names.push_back(it == added.end() ? f.name : StrCat(it->second.node->name(), ":", it->second.index));
      fetches.push_back(&f);
    }
    std::vector<Tensor> got;
    if (absl::Status s = (*session)->Run(c.feeds, names, step.targets, &got); !s.ok())
      return failed(StrCat("step ", k), s);
    for (size_t i = 0; i < got.size(); ++i) {
      const std::string difference = Unlike(got[i], fetches[i]->want, fetches[i]->tolerance);
      if (!difference.empty()) wrong.push_back(StrCat("step ", k, ": ", fetches[i]->name, ": ", difference));
    }
    // What follows would only repeat it.
    if (!wrong.empty()) return wrong;
  }
  return wrong;
}

}  // namespace troupe::test
