// Of the writers that one process has for a checkpoint's prefix, the one that began last counts. A
// save that was given up may go on in the background, and must not replace, mix with or delete what
// a later one has written.
//
//   PrefixClaim claim("run/model");             // older claims of the prefix are over
//   absl::Status s = claim.IfNewest(cancelled, [&] { return files::Rename(temporary, name); });
//
// Other processes are not seen: one process writes a prefix at a time.
//
// Thread rule: a claim is one thread's; claims of one prefix may be on any threads.
#ifndef TROUPE_GRAPH_CHECKPOINT_PREFIX_CLAIM_H_
#define TROUPE_GRAPH_CHECKPOINT_PREFIX_CLAIM_H_

#include <functional>
#include <memory>
#include <string>

#include "troupe/status.h"

namespace troupe {

class PrefixClaim {
 public:
  explicit PrefixClaim(const std::string& prefix);
  ~PrefixClaim();
  PrefixClaim(const PrefixClaim&) = delete;
  PrefixClaim& operator=(const PrefixClaim&) = delete;

  // Whether no newer claim was made.
  bool newest() const;
  // change(), while no other claim of the prefix changes anything. ABORTED without calling it when
  // there is a newer claim, CANCELLED when `cancelled`, which may be empty, says so.
  absl::Status IfNewest(const std::function<bool()>& cancelled, const std::function<absl::Status()>& change) const;
  // The same whether or not there is a newer one.
  void InAnyCase(const std::function<void()>& change) const;
  // How many shards the checkpoint shall have: the first number from `least` on that belongs
  // neither to a data file nor to another claim. So what is there can be read until the new index
  // takes the place of the old one. REQUIRES: within IfNewest, once a claim.
  int TakeShards(int least);
  // The index names that number now, so a claim that replaces it may delete its data. REQUIRES:
  // within IfNewest.
  void ShardsAreNamed();
  // Deletes the data of the checkpoint that this claim's has replaced, which had so many shards,
  // unless the number belongs to somebody again. 0: there was none.
  void DeleteReplaced(int shards) const;

 private:
  struct Prefix;
  const std::string prefix_;
  const std::shared_ptr<Prefix> shared_;
  const int64_t number_;
  int shards_ = 0;  // that it took
};

}  // namespace troupe

#endif  // TROUPE_GRAPH_CHECKPOINT_PREFIX_CLAIM_H_
