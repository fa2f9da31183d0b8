// MatMul and convolutions with the bias, the batch normalisation, the residual sum and the
// activation behind them.
#include <algorithm>
#include <optional>

#include "graph/passes/fuse.h"
#include "graph/passes/fuse_rewrite.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

// The activations that follow a product, as TensorFlow's attr fused_ops names them.
bool IsActivation(const std::string& op, bool convolution) {
  static constexpr const char* kBoth[] = {"Relu", "Relu6", "Elu"};
  static constexpr const char* kProduct[] = {"Tanh", "Sigmoid", "LeakyRelu"};
  const auto among = [&op](const auto& list) {
    return std::find(std::begin(list), std::end(list), op) != std::end(list);
  };
  return among(kBoth) || (!convolution && among(kProduct));
}

class Products {
 public:
  explicit Products(Fuser* fuser) : fuser_(*fuser) {}

  absl::Status Run() {
    for (Node* n : fuser_.graph()->op_nodes()) {
      TROUPE_RETURN_IF_ERROR(fuser_.wanted());
      const std::string& op = n->op().name;
      if (op == "MatMul") {
        TROUPE_RETURN_IF_ERROR(Try(n, false));
      } else if (op == "Conv2D" || op == "DepthwiseConv2dNative") {
        TROUPE_RETURN_IF_ERROR(Try(n, true));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Try(Node* product, bool convolution) {
    // In a small float the separate ops round between each other.
    if (convolution && product->output_type(0) == DType::kHalf) return absl::OkStatus();
    const bool depthwise = product->op().name == "DepthwiseConv2dNative";
    FusedNode f;
    f.op = depthwise ? "_FusedDepthwiseConv2dNative" : convolution ? "_FusedConv2D" : "_FusedMatMul";
    for (const char* name : {"T", "transpose_a", "transpose_b", "strides", "padding", "explicit_paddings",
                             "data_format", "dilations", "use_cudnn_on_gpu"}) {
      if (depthwise && name == std::string_view("use_cudnn_on_gpu")) continue;
      if (const AttrValue* v = product->attrs().Find(name)) f.attrs.Set(name, *v);
    }
    f.inputs = {product->input(0), product->input(1)};
    f.parts = {product};
    std::vector<std::string> ops;
    const Edge* use = NextOf(*product);
    if (use != nullptr && AddsVector(*product, *use->dst, use->dst_input, convolution)) {
      ops.push_back("BiasAdd");
      f.inputs.push_back(use->dst->input(1 - use->dst_input));
      f.parts.push_back(use->dst);
      // Should it turn out to be no such vector, an error names the summands in their order.
      if (use->dst_input == 1) f.attrs.Set(kBiasFirstAttr, true);
      use = NextOf(*use->dst);
    }
    if (use != nullptr && convolution && Normalises(*product, *use->dst, use->dst_input)) {
      ops.push_back("FusedBatchNorm");
      for (int i = 1; i <= 4; ++i) f.inputs.push_back(use->dst->input(i));
      f.parts.push_back(use->dst);
      if (const AttrValue* epsilon = use->dst->attrs().Find("epsilon")) f.attrs.Set("epsilon", *epsilon);
      use = NextOf(*use->dst);
    }
    if (use != nullptr && convolution && AddsImage(*use->dst)) {
      ops.push_back("Add");
      f.inputs.push_back(use->dst->input(1 - use->dst_input));
      f.parts.push_back(use->dst);
      use = NextOf(*use->dst);
    }
    if (Node* gated = convolution ? Gated(*f.parts.back()) : nullptr) {
      ops.push_back("Swish");
      f.parts.push_back(gated->input(gated->input(0).node == f.parts.back() ? 1 : 0).node);
      f.parts.push_back(gated);
    } else if (ops.empty()) {
      return absl::OkStatus();
    } else if (use != nullptr && IsActivation(use->dst->op().name, convolution)) {
      ops.push_back(use->dst->op().name);
      f.parts.push_back(use->dst);
      if (const AttrValue* alpha = use->dst->attrs().Find("alpha")) f.attrs.Set("leakyrelu_alpha", *alpha);
    }
    const int args = static_cast<int>(f.inputs.size()) - 2;
    f.attrs.Set("num_args", args);
    if (convolution && !depthwise) f.attrs.Set("TArgs", std::vector<DType>(args, product->output_type(0)));
    f.attrs.Set("fused_ops", std::move(ops));
    if (!fuser_.HasKernel(f.op, f.attrs, *product)) return absl::OkStatus();
    f.outputs = {{f.parts.back(), 0}};
    TROUPE_ASSIGN_OR_RETURN(const Node* fused, fuser_.Replace(std::move(f)));
    if (shapes_) (void)shapes_->AddNode(fused);
    return absl::OkStatus();
  }

  // The one edge out of n's first output, when a fused node may take the value's place; else null.
  static const Edge* NextOf(const Node& n) {
    const Edge* use = nullptr;
    for (const Edge* e : n.out_edges()) {
      if (!e->dst->IsOp()) continue;
      if (use != nullptr || e->IsControl() || e->src_output != 0) return nullptr;
      use = e;
    }
    return use != nullptr && SameDevice(n, *use->dst) ? use : nullptr;
  }

  // True when `norm` is the batch normalisation, by given statistics, of its input `i`, the
  // convolution `product`, in float32.
  static bool Normalises(const Node& product, const Node& norm, int i) {
    const std::string& op = norm.op().name;
    if (op != "FusedBatchNorm" && op != "FusedBatchNormV2" && op != "FusedBatchNormV3") return false;
    if (i != 0 || product.output_type(0) != DType::kFloat || norm.output_type(1) != DType::kFloat) return false;
    // Nobody needs its statistics.
    for (const Edge* e : norm.out_edges()) {
      if (e->dst->IsOp() && !e->IsControl() && e->src_output > 0) return false;
    }
    const auto training = norm.Attr<bool>("is_training");
    const auto format = product.Attr<std::string>("data_format"), of_norm = norm.Attr<std::string>("data_format");
    return training.ok() && !*training && format.ok() && of_norm.ok() && *format == *of_norm;
  }

  // True when `add` adds an image of the same size, as far as sizes are known.
  bool AddsImage(const Node& add) {
    const std::string& op = add.op().name;
    if ((op != "Add" && op != "AddV2") || add.input(0) == add.input(1)) return false;
    const PartialTensorShape a = ShapeOf(add.input(0)), b = ShapeOf(add.input(1));
    if (!a.known_rank() || !b.known_rank() || a.rank() != 4 || b.rank() != 4) return false;
    for (int i = 0; i < 4; ++i) {
      if (a.dim(i) != b.dim(i)) return false;
    }
    return true;
  }

  // The Mul of x * sigmoid(x) for the first output x of `n`, when nothing else needs x or the
  // sigmoid; else null.
  static Node* Gated(const Node& n) {
    if (n.output_type(0) != DType::kFloat) return nullptr;
    Node *gate = nullptr, *product = nullptr;
    for (const Edge* e : n.out_edges()) {
      if (!e->dst->IsOp()) continue;
      if (e->IsControl() || e->src_output != 0 || !SameDevice(n, *e->dst)) return nullptr;
      Node*& which = e->dst->op().name == "Sigmoid" ? gate : product;
      if (which != nullptr) return nullptr;
      which = e->dst;
    }
    if (gate == nullptr || product == nullptr || product->op().name != "Mul") return nullptr;
    const Edge* use = OnlyUse(*gate);
    return use != nullptr && use->dst == product ? product : nullptr;
  }

  // Only graphs that ask pay for this. What cannot be inferred is unknown, and is left alone.
  PartialTensorShape ShapeOf(NodeOut value) {
    if (!shapes_) {
      shapes_.emplace(fuser_.graph());
      (void)shapes_->AddAll();
    }
    return shapes_->shape(value);
  }

  // True when `add` adds a vector to the last dimension of its input `i`, the product; as far as
  // the graph knows: the fused node looks again.
  bool AddsVector(const Node& product, const Node& add, int i, bool convolution) {
    const std::string& op = add.op().name;
    if (op == "BiasAdd" || op == "BiasAddV1") {
      if (i != 0) return false;
      if (!convolution) return true;
      const auto format = product.Attr<std::string>("data_format"), of_add = add.Attr<std::string>("data_format");
      return format.ok() && *format == (of_add.ok() ? *of_add : std::string("NHWC"));
    }
    if (convolution || (op != "Add" && op != "AddV2") || add.input(0) == add.input(1)) return false;
    const PartialTensorShape c = ShapeOf({const_cast<Node*>(&product), 0}), v = ShapeOf(add.input(1 - i));
    return c.known_rank() && c.rank() == 2 && c.dim(1) > 0 && v.known_rank() && v.rank() == 1 && v.dim(0) == c.dim(1);
  }

  Fuser& fuser_;
  std::optional<ShapeRefiner> shapes_;
};

}  // namespace

absl::Status FuseProducts(Fuser* fuser) { return Products(fuser).Run(); }

}  // namespace troupe
