#include "actors/executor/memory_tally.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/cord.h"
#include "kernels/device/resource_calls.h"

namespace troupe {
namespace {

std::string Bytes(int64_t n) {
  const char* const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(n);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f" : "%.1f", value);
  return StrCat(text, " ", units[unit]);
}

}  // namespace

int64_t MemoryTally::Take(const Tensor& tensor) {
  if (!tensor.valid()) return 0;
  const int64_t bytes = device_.allocator()->ChargeOf(*tensor.buffer());
  return bytes > 0 && seen_.insert(tensor.buffer()->root()).second ? bytes : 0;
}

void MemoryTally::Count(const std::string& what, int64_t bytes) {
  MemoryHolder& h = holders_[what];
  h.bytes += bytes;
  ++h.tensors;
}

void MemoryTally::AddResources(const ResourceContainers& containers) {
  for (const ResourceContainers::Entry& e : containers.Entries()) {
    if (e.object == nullptr) continue;
    std::vector<int64_t> taken;  // the object may have its lock while it is visited
    VisitTensorsOf(*e.object, [&](const Tensor& t) {
      if (const int64_t bytes = Take(t); bytes > 0) taken.push_back(bytes);
    });
    if (taken.empty()) continue;
    const std::string what = DescriptionOf(*e.object);
    for (const int64_t bytes : taken) Count(what, bytes);
  }
}

void MemoryTally::IgnoreResources(const ResourceContainers& containers) {
  for (const ResourceContainers::Entry& e : containers.Entries()) {
    if (e.object != nullptr) VisitTensorsOf(*e.object, [&](const Tensor& t) { Take(t); });
  }
}

void MemoryTally::Add(const std::vector<MemoryHolder>& holders) {
  for (const MemoryHolder& add : holders) {
    MemoryHolder& h = holders_[add.what];
    h.bytes += add.bytes;
    h.tensors += add.tensors;
  }
}

std::vector<MemoryHolder> MemoryTally::Largest(size_t limit) const {
  std::vector<MemoryHolder> list;
  for (const auto& [what, h] : holders_) list.push_back({what, h.bytes, h.tensors});
  std::stable_sort(list.begin(), list.end(),
                   [](const MemoryHolder& a, const MemoryHolder& b) { return a.bytes > b.bytes; });
  if (list.size() > limit) list.resize(limit);
  return list;
}

std::string MemoryTally::Text() const {
  if (holders_.empty()) return "";
  const AllocatorStats stats = device_.allocator()->stats();
  std::string text =
      StrCat("; ", Bytes(stats.bytes_in_use), " are in use",
             stats.bytes_limit > 0 ? StrCat(" of at most ", Bytes(stats.bytes_limit)) : "", ", held by ");
  int64_t rest = stats.bytes_in_use;
  const std::vector<MemoryHolder> largest = Largest();
  for (size_t i = 0; i < largest.size(); ++i) {
    const MemoryHolder& h = largest[i];
    rest -= h.bytes;
    StrAppend(&text, i == 0 ? "" : ", ", h.what, " (", Bytes(h.bytes), " in ", h.tensors,
              h.tensors == 1 ? " tensor)" : " tensors)");
  }
  if (rest > 0) StrAppend(&text, ", and others (", Bytes(rest), "): other steps, kernels that run, the program");
  return text;
}

absl::Status WithHolders(const absl::Status& status, const MemoryTally& tally) {
  const std::string text = tally.Text();
  if (text.empty()) return status;
  absl::Status with(status.code(), StrCat(std::string_view(status.message().data(), status.message().size()), text));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& bytes) { with.SetPayload(url, bytes); });
  return with;
}

}  // namespace troupe
