#include "kernels/product/constant_matrix.h"

#include <compare>
#include <map>

namespace troupe {

struct ConstantPanels {
  std::mutex mu;
  Tensor source, panels;  // set once, under mu
};

namespace {

// Of the graph: a value that is fed in its place is an argument.
bool IsConstant(const Node* n) {
  while (n != nullptr && n->num_inputs() == 1) {
    const auto same = n->Attr<bool>("is_constant");
    if (n->op().name != "Identity" && !(n->op().name == "Enter" && same.ok() && *same)) return false;
    n = n->input(0).node;
  }
  return n != nullptr && n->IsConstant();
}

// Which copies there are. Thread rule: thread safe; nothing is packed under the lock.
class Copies {
 public:
  // While a copy lives, so do its constant, whose address is no other one's therefore, and the
  // device, to which the kernels belong that hold it.
  struct Key {
    const Device* device;
    const void* source;
    int64_t k, n;
    bool transposed;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  // For ever: kernels may die after static objects.
  static Copies& All() {
    static Copies& all = *new Copies;
    return all;
  }
  std::shared_ptr<ConstantPanels> Of(const Key& key) {
    // Before the lock, which its deleter takes.
    const std::shared_ptr<ConstantPanels> made(new ConstantPanels, [this, key](ConstantPanels* last) {
      Forget(key);
      delete last;
    });
    std::lock_guard<std::mutex> lock(mu_);
    std::weak_ptr<ConstantPanels>& known = copies_[key];
    if (std::shared_ptr<ConstantPanels> there = known.lock()) return there;
    known = made;
    return made;
  }

 private:
  void Forget(const Key& key) {
    std::lock_guard<std::mutex> lock(mu_);
    // Another one may have been made since the last owner let go of this one.
    if (const auto it = copies_.find(key); it != copies_.end() && it->second.expired()) copies_.erase(it);
  }

  std::mutex mu_;
  std::map<Key, std::weak_ptr<ConstantPanels>> copies_;
};

}  // namespace

ConstantMatrix::ConstantMatrix(const Node& node)
    : constant_(node.num_inputs() > 1 && IsConstant(node.input(1).node) && node.input_type(1) == DType::kFloat) {}

const float* ConstantMatrix::Make(KernelContext& ctx, const GemmShape& s, const Tensor& b) {
  std::lock_guard<std::mutex> lock(mu_);
  if (const void* const source = source_.load(std::memory_order_relaxed); source != nullptr)
    return source == b.raw() ? panels_ : nullptr;
  const std::shared_ptr<ConstantPanels> copy = Copies::All().Of({ctx.device(), b.raw(), s.k, s.n, s.transpose_b});
  std::lock_guard<std::mutex> making(copy->mu);
  if (!copy->panels.valid()) {
    absl::StatusOr<Tensor> panels = ctx.AllocateTemp(DType::kFloat, TensorShape({s.k, s.n}));
    if (!panels.ok()) return nullptr;
    PackPanels(s, b.data<float>(), panels->data<float>());
    copy->source = b;
    copy->panels = *std::move(panels);
  }
  shared_ = copy;
  panels_ = copy->panels.data<float>();
  source_.store(b.raw(), std::memory_order_release);
  return panels_;
}

}  // namespace troupe
