#include "net/parcels.h"

#include <algorithm>
#include <utility>

#include "troupe/proto/config.pb.h"

namespace troupe {

std::optional<parcel_piece> ParcelsOut::Next(uint64_t call, Parcel* parcel) {
  Parcel& p = *parcel;
  const std::vector<char>& all = *p.bytes;
  if (p.sent == all.size()) return std::nullopt;
  parcel_piece piece;
  piece.call = call;
  piece.kind = p.kind;
  piece.total = all.size();
  const size_t size = std::min(kPiece, all.size() - p.sent);
  piece.bytes.assign(all.begin() + static_cast<ptrdiff_t>(p.sent), all.begin() + static_cast<ptrdiff_t>(p.sent + size));
  p.sent += size;
  ++p.not_taken;
  return piece;
}

std::vector<parcel_piece> ParcelsOut::Send(uint64_t call, parcel_piece::Kind kind,
                                           std::shared_ptr<const std::vector<char>> bytes) {
  std::vector<parcel_piece> pieces = Drop(call);  // a number that is used again
  waiting_.push_back(call);
  parcels_[call] = {kind, std::move(bytes)};
  Start(&pieces);
  return pieces;
}

std::vector<parcel_piece> ParcelsOut::Taken(uint64_t call) {
  std::vector<parcel_piece> pieces;
  const auto it = parcels_.find(call);
  if (it == parcels_.end() || it->second.not_taken == 0) return pieces;
  --it->second.not_taken;
  if (std::optional<parcel_piece> next = Next(call, &it->second)) {
    pieces.push_back(*std::move(next));
  } else if (it->second.not_taken == 0) {
    return Drop(call);
  }
  return pieces;
}

std::vector<parcel_piece> ParcelsOut::Drop(uint64_t call) {
  std::vector<parcel_piece> pieces;
  const auto it = parcels_.find(call);
  if (it == parcels_.end()) return pieces;
  if (it->second.waits) waiting_.erase(std::find(waiting_.begin(), waiting_.end(), call));
  parcels_.erase(it);
  Start(&pieces);
  return pieces;
}

void ParcelsOut::Clear() {
  waiting_.clear();
  parcels_.clear();
}

void ParcelsOut::Start(std::vector<parcel_piece>* pieces) {
  while (!waiting_.empty() && parcels_.size() - waiting_.size() < kMost) {
    const uint64_t call = waiting_.front();
    waiting_.pop_front();
    Parcel& p = parcels_[call];
    p.waits = false;
    for (int i = 0; i < kUnderWay; ++i) {
      if (std::optional<parcel_piece> next = Next(call, &p)) pieces->push_back(*std::move(next));
    }
  }
}

absl::StatusOr<std::optional<std::vector<char>>> ParcelsIn::Take(parcel_piece piece) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 31;
  const auto it = parcels_.find(piece.call);
  if (it == parcels_.end() && parcels_.size() >= kMost)
    return ResourceExhausted("there are ", kMost, " messages of more than ", ParcelsOut::kPiece, " bytes already");
  Parcel& p = it == parcels_.end() ? parcels_[piece.call] : it->second;
  if (it == parcels_.end()) {
    p.kind = piece.kind;
    p.total = piece.total;
  }
  if (piece.bytes.empty() || piece.kind != p.kind || piece.total != p.total || p.total > kMostBytes ||
      piece.bytes.size() > p.total - p.bytes.size()) {
    parcels_.erase(piece.call);
    return InvalidArgument("a piece of a message does not fit");
  }
  p.bytes.insert(p.bytes.end(), piece.bytes.begin(), piece.bytes.end());
  if (p.bytes.size() < p.total) return std::optional<std::vector<char>>();
  std::optional<std::vector<char>> whole = std::move(p.bytes);
  parcels_.erase(piece.call);
  return whole;
}

uint64_t BytesOf(const std::vector<const Tensor*>& tensors) {
  uint64_t bytes = 0;
  for (const Tensor* const t : tensors) {
    if (!t->valid()) continue;
    bytes += t->bytes();
    if (t->dtype() != DType::kString) continue;
    for (int64_t i = 0; i < t->num_elements(); ++i) bytes += t->data<std::string>()[i].size();
  }
  return bytes;
}

uint64_t BytesOf(const call_answer& answer) {
  std::vector<const Tensor*> tensors;
  for (const Tensor& t : answer.reply.outputs) tensors.push_back(&t);
  uint64_t bytes = BytesOf(tensors);
  if (answer.reply.metadata != nullptr) bytes += answer.reply.metadata->ByteSizeLong();
  for (const std::string& text : answer.texts) bytes += text.size();
  return bytes;
}

}  // namespace troupe
