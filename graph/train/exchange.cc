#include "graph/train/exchange.h"

#include <algorithm>

#include "graph/train/build.h"
#include "troupe/const.h"

namespace troupe::train {

Exchange::Exchange(const Scope& s, const std::vector<std::string>& devices) {
  for (size_t r = 0; r < devices.size(); ++r) {
    const Scope on = s.NewSubScope(StrCat("replica_", r));
    on_.push_back(devices[r].empty() ? on : on.WithDevice(devices[r]));
  }
}

std::vector<Output> Exchange::Cut(size_t replica, const Output& vector, int64_t elements, int64_t pieces) const {
  if (pieces == 1) return {vector};
  const Scope& s = on(replica);
  const auto count = static_cast<size_t>(pieces);
  std::vector<int64_t> sizes(count);
  // Piece i has (elements + pieces - 1 - i) / pieces of them.
  for (size_t i = 0; i < count; ++i) sizes[i] = pieces - 1 - static_cast<int64_t>(i);
  Output lengths;
  if (elements >= 0) {
    for (int64_t& size : sizes) size = (elements + size) / pieces;
    lengths = Const(s, Literal(Tensor::Vector<int64_t>(absl::MakeConstSpan(sizes))));
  } else {
    const Output n = train::Build(s, "Size", {vector}, {{"out_type", DType::kInt64}});
    const Output more = Const(s, Literal(Tensor::Vector<int64_t>(absl::MakeConstSpan(sizes))));
    lengths = train::Build(s, "FloorDiv", {train::Build(s, "AddV2", {n, more}), Const(s, pieces)});
  }
  const Operation cut = EmitOp(s, "SplitV", {vector, lengths, 0}, {{"num_split", pieces}});
  std::vector<Output> out;
  for (int i = 0; i < static_cast<int>(pieces); ++i) out.push_back(cut.output(i));
  return out;
}

Output Exchange::Join(size_t replica, const std::vector<Output>& pieces) const { return JoinRows(on(replica), pieces); }

Output Exchange::Add(size_t replica, const Output& a, const Output& b) const { return SumOf(on(replica), {a, b}); }

Output Exchange::Mean(size_t replica, const Output& sum, bool mean) const {
  if (!mean || !sum.valid()) return sum;
  const Scope& s = on(replica);
  return train::Build(s, "Div", {sum, Const(s, static_cast<int64_t>(size()), sum.dtype())});
}

// What goes on from here is sent from here, and not from where it came from.
Output Exchange::Copy(size_t replica, const Output& value) const {
  return train::Build(on(replica), "Identity", {value});
}

std::vector<Output> Exchange::Ring(const std::vector<Output>& vectors, int64_t elements, bool mean) const {
  const size_t n = size();
  if (elements == 0) return vectors;
  const int64_t chunks = elements < 0 ? static_cast<int64_t>(n) : std::min(static_cast<int64_t>(n), elements);
  std::vector<std::vector<Output>> mine, sums(n, std::vector<Output>(static_cast<size_t>(chunks)));
  for (size_t r = 0; r < n; ++r) mine.push_back(Cut(r, vectors[r], elements, chunks));
  for (size_t c = 0; c < static_cast<size_t>(chunks); ++c) {
    Output sum = mine[c][c];
    size_t at = c;
    for (size_t hop = 1; hop < n; ++hop) {
      at = (at + 1) % n;
      sum = Add(at, sum, mine[at][c]);
    }
    sums[at][c] = sum = Mean(at, sum, mean);
    for (size_t hop = 1; hop < n; ++hop) {
      at = (at + 1) % n;
      sums[at][c] = sum = Copy(at, sum);
    }
  }
  std::vector<Output> out;
  for (size_t r = 0; r < n; ++r) out.push_back(Join(r, sums[r]));
  return out;
}

std::vector<Output> Exchange::HalvingAndDoubling(const std::vector<Output>& vectors, int64_t elements,
                                                 bool mean) const {
  const size_t n = size();
  if (elements == 0) return vectors;
  size_t pairs = 1;
  while (2 * pairs <= n) pairs *= 2;
  std::vector<Output> has = vectors;
  // The length of what a replica has.
  std::vector<int64_t> length(n, elements);
  for (size_t r = pairs; r < n; ++r) has[r - pairs] = Add(r - pairs, has[r - pairs], vectors[r]);
  for (size_t bit = pairs / 2; bit > 0; bit /= 2) {
    std::vector<std::vector<Output>> halves;
    for (size_t r = 0; r < pairs; ++r) halves.push_back(Cut(r, has[r], length[r], 2));
    for (size_t r = 0; r < pairs; ++r) {
      const size_t half = (r & bit) == 0 ? 0 : 1, low = r & ~bit, high = r | bit;
      has[r] = Add(r, halves[low][half], halves[high][half]);
      if (length[r] >= 0) length[r] = (length[r] + (half == 0 ? 1 : 0)) / 2;
    }
  }
  for (size_t r = 0; r < pairs; ++r) has[r] = Mean(r, has[r], mean);
  for (size_t bit = 1; bit < pairs; bit *= 2) {
    const std::vector<Output> before = has;
    for (size_t r = 0; r < pairs; ++r) has[r] = Join(r, {before[r & ~bit], before[r | bit]});
  }
  for (size_t r = pairs; r < n; ++r) has[r] = Copy(r, has[r - pairs]);
  return has;
}

std::vector<Output> Exchange::Gather(const std::vector<Output>& values) const {
  const size_t n = size();
  std::vector<std::vector<Output>> has(n, std::vector<Output>(n));
  for (size_t from = 0; from < n; ++from) {
    Output value = has[from][from] = values[from];
    for (size_t hop = 1; hop < n; ++hop) {
      const size_t at = (from + hop) % n;
      has[at][from] = value = Copy(at, value);
    }
  }
  std::vector<Output> out;
  for (size_t r = 0; r < n; ++r) out.push_back(Join(r, has[r]));
  return out;
}

}  // namespace troupe::train
