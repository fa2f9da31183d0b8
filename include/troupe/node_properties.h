// The properties of a node that do not depend on its place in a graph: name, op, attributes, types.
//
// Problem: every signature of a session runs a copy of the part of the graph that it needs. Edges
// differ from copy to copy; names, attributes and types do not. Copying and destroying them was a
// third of the cost of a signature.
//
// Contract: copies of a node share their properties until one of them is changed:
// SharedProperties::Own() returns them for writing, and copies them first if they are shared, so
// that no other copy sees the change.
//
// Thread rule: one SharedProperties is a plain object; several that share may be read, copied,
// dropped and owned on different threads at the same time.
#ifndef TROUPE_NODE_PROPERTIES_H_
#define TROUPE_NODE_PROPERTIES_H_

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/attr_value.h"
#include "troupe/dtype.h"
#include "troupe/export.h"
#include "troupe/status.h"

namespace TROUPE_EXPORT troupe {

struct OpDef;

struct NodeProperties {
  std::string name;
  const OpDef* op = nullptr;
  std::shared_ptr<const OpDef> unknown_op;  // keeps `op` of a node whose op does not exist here; else null
  AttrMap attrs;
  std::vector<DType> input_types, output_types;
  std::string requested_device;
  SourceLocation location;

  NodeProperties();
  NodeProperties(const NodeProperties&);
  NodeProperties& operator=(const NodeProperties&) = delete;
  ~NodeProperties();
};

// A share in properties; a pointer wide.
class SharedProperties {
 public:
  SharedProperties() = default;  // in none: only to be assigned to
  static SharedProperties Make() { return SharedProperties(New()); }
  SharedProperties(const SharedProperties& other) noexcept : p_(other.p_) {
    if (p_ != nullptr) p_->shares.fetch_add(1, std::memory_order_relaxed);
  }
  SharedProperties(SharedProperties&& other) noexcept : p_(std::exchange(other.p_, nullptr)) {}
  SharedProperties& operator=(SharedProperties other) noexcept {
    std::swap(p_, other.p_);
    return *this;
  }
  ~SharedProperties() {
    if (p_ != nullptr) Drop(p_);
  }

  const NodeProperties* operator->() const { return p_; }
  const NodeProperties& operator*() const { return *p_; }
  // For writing. The pointer is good until this share is copied. REQUIRES: a share in something.
  NodeProperties* Own();
  bool alone() const { return p_->shares.load(std::memory_order_acquire) == 1; }
  friend bool operator==(const SharedProperties& a, const SharedProperties& b) { return a.p_ == b.p_; }

 private:
  struct Counted : NodeProperties {
    Counted() = default;
    explicit Counted(const NodeProperties& p) : NodeProperties(p) {}
    std::atomic<uint32_t> shares{1};
  };
  explicit SharedProperties(Counted* p) : p_(p) {}
  static Counted* New();
  static void Drop(Counted* p);
  Counted* p_ = nullptr;
};

}  // namespace troupe

#endif  // TROUPE_NODE_PROPERTIES_H_
