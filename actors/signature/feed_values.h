// The values of a step's feeds, read where the caller keeps them: an array of tensors, or the
// second halves of an array of pairs.
//
// The values are not copied: copies would write to their reference counts, which other threads that
// feed the same tensors write to as well.
//
// Thread rule: a plain view, valid while the caller's array is.
#ifndef TROUPE_ACTORS_SIGNATURE_FEED_VALUES_H_
#define TROUPE_ACTORS_SIGNATURE_FEED_VALUES_H_

#include "troupe/session.h"

namespace troupe {

class FeedValues {
 public:
  FeedValues() = default;
  FeedValues(absl::Span<const Tensor> values)  // NOLINT: stands for it
      : first_(reinterpret_cast<const char*>(values.data())), stride_(sizeof(Tensor)), size_(values.size()) {}
  explicit FeedValues(const Feeds& feeds)
      : first_(feeds.empty() ? nullptr : reinterpret_cast<const char*>(&feeds.front().second)),
        stride_(sizeof(Feeds::value_type)),
        size_(feeds.size()) {}
  size_t size() const { return size_; }
  const Tensor& operator[](size_t i) const { return *reinterpret_cast<const Tensor*>(first_ + i * stride_); }

 private:
  const char* first_ = nullptr;
  size_t stride_ = 0, size_ = 0;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_SIGNATURE_FEED_VALUES_H_
