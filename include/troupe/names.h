// What the calls of a Session take where they feed, fetch and run: names of tensors and nodes, as
// text or as builders returned them.
//
//   session->Run({{x, Tensor::Scalar(2.0f)}}, {loss, "w:0"}, {train}, &out);
//
// A GraphName stands for its text alone: an Output, an Operation or a Variable is looked up in the
// session's graph by the name that it has in its own. One that is invalid (its builder failed) has
// the empty name, which every call refuses.
//
// FeedList and NameList are parameters, made for the length of a call. They take lists in braces,
// vectors of builders' results, and Feeds and Names, which they refer to and do not copy.
//
// Source of the semantics: the names of tf.Tensor and tf.Operation, and what tf.Session.run takes
// as fetches and keys of feed_dict.
//
// Thread rule: plain values; as for a std::string.
#ifndef TROUPE_NAMES_H_
#define TROUPE_NAMES_H_

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "troupe/export.h"
#include "troupe/output.h"
#include "troupe/tensor.h"

namespace TROUPE_EXPORT troupe {

// "fc1/MatMul:0" is a tensor; "fc1/MatMul" its first output, or as a target the node.
class GraphName {
 public:
  GraphName(std::string text) : text_(std::move(text)) {}              // NOLINT: names are meant to convert
  GraphName(const char* text) : text_(text != nullptr ? text : "") {}  // NOLINT
  GraphName(std::nullptr_t) = delete;
  GraphName(std::string_view text) : text_(text) {}     // NOLINT
  GraphName(const Output& out) : text_(out.name()) {}   // NOLINT: a Variable, too: its value
  GraphName(const Operation& op) : text_(op.name()) {}  // NOLINT

  const std::string& text() const { return text_; }

 private:
  friend class NameList;
  friend class FeedList;
  std::string text_;
};

using Feeds = std::vector<std::pair<std::string, Tensor>>;
using Names = std::vector<std::string>;

class NameList {
 public:
  NameList() : names_(&own_) {}
  NameList(std::initializer_list<GraphName> names) : names_(&own_) {  // NOLINT
    own_.reserve(names.size());
    for (const GraphName& n : names) own_.push_back(n.text_);
  }
  NameList(const Names& names) : names_(&names) {}  // NOLINT
  template <class T>
  requires(std::convertible_to<const T&, GraphName> && !std::same_as<T, std::string>)
      NameList(const std::vector<T>& names)
      : names_(&own_) {  // NOLINT
    own_.reserve(names.size());
    for (const T& n : names) own_.push_back(GraphName(n).text_);
  }
  NameList(const NameList&) = delete;
  NameList& operator=(const NameList&) = delete;

  const Names& get() const { return *names_; }

 private:
  Names own_;
  const Names* names_;
};

class FeedList {
 public:
  FeedList() : feeds_(&own_) {}
  FeedList(std::initializer_list<std::pair<GraphName, Tensor>> feeds) : feeds_(&own_) {  // NOLINT
    own_.reserve(feeds.size());
    for (const auto& [name, value] : feeds) own_.emplace_back(name.text_, value);
  }
  FeedList(const Feeds& feeds) : feeds_(&feeds) {}  // NOLINT
  template <class T>
  requires(std::convertible_to<const T&, GraphName> && !std::same_as<T, std::string>)
      FeedList(const std::vector<std::pair<T, Tensor>>& feeds)
      : feeds_(&own_) {  // NOLINT
    own_.reserve(feeds.size());
    for (const auto& [name, value] : feeds) own_.emplace_back(GraphName(name).text_, value);
  }
  FeedList(const FeedList&) = delete;
  FeedList& operator=(const FeedList&) = delete;

  const Feeds& get() const { return *feeds_; }

 private:
  Feeds own_;
  const Feeds* feeds_;
};

}  // namespace troupe

#endif  // TROUPE_NAMES_H_
