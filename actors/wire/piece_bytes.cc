#include "actors/wire/piece_bytes.h"

#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <cstring>
#include <new>
#include <utility>

namespace troupe {
namespace {

// Of a thread, whatever ends first.
thread_local std::weak_ptr<PieceSplices> awaited;
thread_local const freight_piece* arrived = nullptr;

bool IsSame(const freight_piece& a, const freight_piece& b) {
  return a.from == b.from && a.to == b.to && a.number == b.number && a.hole == b.hole && a.offset == b.offset &&
         a.size == b.size && a.ticket == b.ticket;
}

}  // namespace

void PieceSplices::Await(const std::shared_ptr<PieceSplices>& splices) {
  if (awaited.owner_before(splices) || splices.owner_before(awaited)) awaited = splices;
}

bool PieceSplices::LeaveRoom(caf::serializer& f, const freight_piece& piece) {
  if (piece.size < kFewest) return false;
  auto* const to = dynamic_cast<caf::binary_serializer*>(&f);
  const std::shared_ptr<PieceSplices> splices = to != nullptr ? awaited.lock() : nullptr;
  if (splices == nullptr || splices->buffer_ != &to->buf() || to->write_pos() != to->buf().size()) return false;
  const char* const bytes = static_cast<const char*>(piece.source.raw()) + piece.offset;
  splices->splices_.push_back({to->write_pos(), piece.size, bytes, piece.source});
  try {
    to->skip(piece.size);
  } catch (const std::bad_alloc&) {
    splices->splices_.pop_back();
    throw;
  }
  return true;
}

PieceReader::PieceReader(caf::actor_system& system) try {
  // Elsewhere nobody would know that its bytes are there.
  if (caf::get_or(system.config(), "middleman.workers", caf::defaults::middleman::workers) > 0) return;
  freight_piece piece;
  std::vector<char> message, name;
  std::vector<caf::strong_actor_ptr> stages;
  caf::binary_serializer to_message(system, message), to_name(system, name);
  caf::message content = caf::make_message(piece);
  if (to_message(stages, content) || to_name(piece)) return;
  head_ = message.size();
  message.resize(message.size() - name.size());
  prefix_ = std::move(message);
} catch (const std::bad_alloc&) {
  head_ = 0;
}

size_t PieceReader::Head(size_t message) const {
  return head_ > 0 && message >= head_ + PieceSplices::kFewest ? head_ : 0;
}

bool PieceReader::Begin(const char* head, size_t message) {
  if (Head(message) == 0 || std::memcmp(head, prefix_.data(), prefix_.size()) != 0) return false;
  caf::binary_deserializer f(nullptr, head + prefix_.size(), head_ - prefix_.size());
  if (InspectName(f, piece_) || piece_.ticket != 0 || piece_.size != message - head_) return false;
  berth_ = FreightBerth::Find({piece_.to, piece_.from, piece_.number, piece_.hole});
  to_ = berth_ != nullptr ? berth_->Claim(piece_.offset, piece_.size) : nullptr;
  if (to_ == nullptr) End();
  return to_ != nullptr;
}

void PieceReader::End() {
  berth_ = nullptr;
  to_ = nullptr;
}

PieceReader::Arrived::Arrived(const PieceReader& reader) { arrived = reader.to_ != nullptr ? &reader.piece_ : nullptr; }
PieceReader::Arrived::~Arrived() { arrived = nullptr; }
bool PieceReader::HasRead(const freight_piece& piece) { return arrived != nullptr && IsSame(*arrived, piece); }

}  // namespace troupe
