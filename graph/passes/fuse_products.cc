// MatMul and Conv2D with the bias and the activation behind them.
#include <algorithm>
#include <optional>

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
      if (op != "MatMul" && op != "Conv2D") continue;
      if (const Edge* use = OnlyUse(*n); use != nullptr && SameDevice(*n, *use->dst))
        TROUPE_RETURN_IF_ERROR(Try(n, use, op == "Conv2D"));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Try(Node* product, const Edge* use, bool convolution) {
    Node* add = use->dst;
    // In a small float the separate ops round between each other.
    if (convolution && product->output_type(0) == DType::kHalf) return absl::OkStatus();
    if (!AddsVector(*product, *add, use->dst_input, convolution)) return absl::OkStatus();
    Node* activation = nullptr;
    if (const Edge* next = OnlyUse(*add);
        next != nullptr && SameDevice(*add, *next->dst) && IsActivation(next->dst->op().name, convolution)) {
      activation = next->dst;
    }
    FusedNode f;
    f.op = convolution ? "_FusedConv2D" : "_FusedMatMul";
    for (const char* name : {"T", "transpose_a", "transpose_b", "strides", "padding", "explicit_paddings",
                             "data_format", "dilations", "use_cudnn_on_gpu"}) {
      if (const AttrValue* v = product->attrs().Find(name)) f.attrs.Set(name, *v);
    }
    f.attrs.Set("num_args", 1);
    if (convolution) f.attrs.Set("TArgs", std::vector<DType>{product->output_type(0)});
    std::vector<std::string> ops = {"BiasAdd"};
    f.parts = {product, add};
    if (activation != nullptr) {
      ops.push_back(activation->op().name);
      f.parts.push_back(activation);
      if (const AttrValue* alpha = activation->attrs().Find("alpha")) f.attrs.Set("leakyrelu_alpha", *alpha);
    }
    f.attrs.Set("fused_ops", std::move(ops));
    if (!fuser_.HasKernel(f.op, f.attrs, *product)) return absl::OkStatus();
    f.inputs = {product->input(0), product->input(1), add->input(1 - use->dst_input)};
    f.outputs = {{f.parts.back(), 0}};
    return fuser_.Replace(std::move(f)).status();
  }

  // True when `add` adds a vector to the last dimension of its input `i`, the product.
  bool AddsVector(const Node& product, const Node& add, int i, bool convolution) {
    const std::string& op = add.op().name;
    if (op == "BiasAdd" || op == "BiasAddV1") {
      if (i != 0) return false;
      if (!convolution) return true;
      const auto format = product.Attr<std::string>("data_format"), of_add = add.Attr<std::string>("data_format");
      return format.ok() && *format == (of_add.ok() ? *of_add : std::string("NHWC"));
    }
    if (convolution || (op != "Add" && op != "AddV2") || add.input(0) == add.input(1)) return false;
    if (!shapes_) {
      // Only graphs with such an Add pay for this. What cannot be inferred is unknown, and is left
      // alone.
      shapes_.emplace(fuser_.graph());
      (void)shapes_->AddAll();
    }
    const PartialTensorShape c = shapes_->shape({const_cast<Node*>(&product), 0}), v = shapes_->shape(add.input(1 - i));
    return c.known_rank() && c.rank() == 2 && c.dim(1) > 0 && v.known_rank() && v.rank() == 1 && v.dim(0) == c.dim(1);
  }

  Fuser& fuser_;
  std::optional<ShapeRefiner> shapes_;
};

}  // namespace

absl::Status FuseProducts(Fuser* fuser) { return Products(fuser).Run(); }

}  // namespace troupe
