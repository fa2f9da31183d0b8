#include "graph/checkpoint/prefix_claim.h"

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "graph/checkpoint/bundle.h"

namespace troupe {

struct PrefixClaim::Prefix {
  std::mutex mu;        // held while names change, which a slow disk may delay
  std::set<int> taken;  // by claims that live; under mu
  std::atomic<int64_t> newest{0};
  int64_t claims = 0;  // that live; under the table's lock

  // Of all prefixes that have a claim. Never destroyed: writers may go on until the process is
  // over.
  struct Table {
    std::mutex mu;
    std::map<std::string, std::shared_ptr<Prefix>> prefixes;
  };
  static Table& All() {
    static auto* const all = new Table();
    return *all;
  }
  static std::shared_ptr<Prefix> Of(const std::string& prefix) {
    Table& all = All();
    std::lock_guard<std::mutex> lock(all.mu);
    std::shared_ptr<Prefix>& p = all.prefixes[prefix];
    if (p == nullptr) p = std::make_shared<Prefix>();
    ++p->claims;
    return p;
  }
};

PrefixClaim::PrefixClaim(const std::string& prefix)
    : prefix_(prefix), shared_(Prefix::Of(prefix)), number_(shared_->newest.fetch_add(1) + 1) {}

PrefixClaim::~PrefixClaim() {
  if (shards_ != 0) InAnyCase([this] { ShardsAreNamed(); });
  Prefix::Table& all = Prefix::All();
  std::lock_guard<std::mutex> lock(all.mu);
  if (--shared_->claims == 0) all.prefixes.erase(prefix_);
}

bool PrefixClaim::newest() const { return shared_->newest.load() == number_; }

absl::Status PrefixClaim::IfNewest(const std::function<bool()>& cancelled,
                                   const std::function<absl::Status()>& change) const {
  std::lock_guard<std::mutex> lock(shared_->mu);
  if (!newest()) {
    return absl::AbortedError(StrCat(prefix_, ": a newer writer of this checkpoint has begun in this process"));
  }
  if (cancelled && cancelled()) return Cancelled("writing ", prefix_, " was cancelled");
  return change();
}

void PrefixClaim::InAnyCase(const std::function<void()>& change) const {
  std::lock_guard<std::mutex> lock(shared_->mu);
  change();
}

int PrefixClaim::TakeShards(int least) {
  int n = least;
  while (shared_->taken.contains(n) || files::Exists(DataPath(prefix_, 0, n))) ++n;
  shared_->taken.insert(n);
  return shards_ = n;
}

void PrefixClaim::ShardsAreNamed() { shared_->taken.erase(std::exchange(shards_, 0)); }

void PrefixClaim::DeleteReplaced(int shards) const {
  if (shards == 0) return;
  std::lock_guard<std::mutex> lock(shared_->mu);
  if (shared_->taken.contains(shards)) return;
  const absl::StatusOr<int> now = ShardsThere(prefix_);
  if (now.ok() && *now != shards) DeleteData(prefix_, shards);
}

}  // namespace troupe
