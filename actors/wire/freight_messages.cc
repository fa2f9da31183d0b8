#include "actors/wire/freight_messages.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <string>

#include <caf/binary_deserializer.hpp>

namespace troupe {
namespace {

struct Berths {
  std::mutex mu;
  std::map<FreightBerth::Name, std::shared_ptr<FreightBerth>> by_name;
};
// Never destroyed: the network's thread may still read when the program ends.
Berths& AllBerths() {
  static Berths* const berths = new Berths;
  return *berths;
}

// More holes than a sender makes are refused before memory is taken for them.
constexpr uint32_t kMostHoles = 1 << 16;

template <size_t kKind = 0>
caf::error ReadMessage(caf::deserializer& f, uint8_t kind, freight_message* x) {
  if constexpr (kKind == std::variant_size_v<freight_message>) {
    return caf::sec::invalid_argument;
  } else {
    if (kind != kKind) return ReadMessage<kKind + 1>(f, kind, x);
    return f(x->emplace<kKind>());
  }
}

}  // namespace

FreightBerth::FreightBerth(Tensor tensor, uint64_t bytes, uint32_t piece, std::shared_ptr<const SharedView> pool,
                           AdoptFn adopt)
    : tensor_(std::move(tensor)),
      bytes_(bytes),
      piece_(piece),
      pool_(std::move(pool)),
      adopt_(std::move(adopt)),
      claimed_(Pieces(bytes, piece)) {}

char* FreightBerth::Claim(uint64_t offset, uint32_t size) {
  if (offset >= bytes_ || offset % piece_ != 0 || size != SizeAt(bytes_, piece_, offset)) return nullptr;
  std::lock_guard<std::mutex> lock(mu_);
  if (claimed_[offset / piece_]) return nullptr;
  claimed_[offset / piece_] = true;
  return static_cast<char*>(tensor_.raw()) + offset;
}

void FreightBerth::Adopt(freight_piece* piece) {
  if (adopt_ == nullptr || piece->offset != 0 || piece->size != bytes_) return;
  Tensor before;  // goes without the lock
  std::lock_guard<std::mutex> lock(mu_);
  if (std::find(claimed_.begin(), claimed_.end(), true) != claimed_.end()) return;
  const auto all = [this] { std::fill(claimed_.begin(), claimed_.end(), true); };
  Buffer* const buffer = adopt_(piece->lease, piece->ticket, piece->size);
  if (buffer == nullptr) {
    if (!SharedView::Copy(piece->lease, piece->ticket, static_cast<char*>(tensor_.raw()), bytes_)) return;
    piece->taken = true;
    return all();
  }
  try {
    before = std::exchange(tensor_, Tensor(tensor_.dtype(), tensor_.shape(), buffer));
  } catch (const std::bad_alloc&) {
    return buffer->Unref();
  }
  piece->taken = piece->adopted = true;
  all();
}

void FreightBerth::Open(const Name& name, std::shared_ptr<FreightBerth> berth) {
  std::lock_guard<std::mutex> lock(AllBerths().mu);
  AllBerths().by_name.insert_or_assign(name, std::move(berth));
}
void FreightBerth::Close(const Name& name) {
  std::shared_ptr<FreightBerth> last;  // its tensor goes without the lock
  std::lock_guard<std::mutex> lock(AllBerths().mu);
  const auto it = AllBerths().by_name.find(name);
  if (it == AllBerths().by_name.end()) return;
  last = std::move(it->second);
  AllBerths().by_name.erase(it);
}
std::shared_ptr<FreightBerth> FreightBerth::Find(const Name& name) {
  std::lock_guard<std::mutex> lock(AllBerths().mu);
  const auto it = AllBerths().by_name.find(name);
  return it == AllBerths().by_name.end() ? nullptr : it->second;
}

absl::StatusOr<Tensor> PackStrings(const Tensor& strings) {
  const auto* const s = static_cast<const std::string*>(strings.raw());
  const int64_t n = strings.num_elements();
  int64_t bytes = n * static_cast<int64_t>(sizeof(uint64_t));
  for (int64_t i = 0; i < n; ++i) bytes += static_cast<int64_t>(s[i].size());
  Tensor packed(DType::kUint8, TensorShape({bytes}));
  if (!packed.valid()) return ResourceExhausted("no memory for ", bytes, " bytes of strings");
  auto* lengths = static_cast<char*>(packed.raw());
  char* text = lengths + static_cast<size_t>(n) * sizeof(uint64_t);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t length = s[i].size();
    std::memcpy(lengths, &length, sizeof(length));
    lengths += sizeof(length);
    std::memcpy(text, s[i].data(), s[i].size());
    text += s[i].size();
  }
  return packed;
}

absl::StatusOr<Tensor> UnpackStrings(const Tensor& bytes, const TensorShape& shape) try {
  const auto n = static_cast<uint64_t>(shape.num_elements());
  const uint64_t all = bytes.bytes();
  const auto wrong = [] { return InvalidArgument("the bytes of a tensor of strings are none"); };
  if (n > all / sizeof(uint64_t)) return wrong();
  const auto* lengths = static_cast<const char*>(bytes.raw());
  const char* text = lengths + n * sizeof(uint64_t);
  uint64_t left = all - n * sizeof(uint64_t);
  Tensor strings(DType::kString, shape);
  if (!strings.valid()) return ResourceExhausted("no memory for ", n, " strings");
  auto* const s = static_cast<std::string*>(strings.raw());
  for (uint64_t i = 0; i < n; ++i) {
    uint64_t length = 0;
    std::memcpy(&length, lengths + i * sizeof(length), sizeof(length));
    if (length > left) return wrong();
    s[i].assign(text, length);
    text += length;
    left -= length;
  }
  if (left != 0) return wrong();
  return strings;
} catch (const std::bad_alloc&) {
  return absl::ResourceExhaustedError("no memory for the strings of a tensor");
}

caf::error inspect(caf::serializer& f, freight_hole& x) {
  auto rank = static_cast<uint8_t>(x.dims.size());
  if (caf::error e = f(x.place, x.dtype, rank)) return e;
  for (int64_t& dim : x.dims) {
    if (caf::error e = f(dim)) return e;
  }
  return f(x.bytes);
}
caf::error inspect(caf::deserializer& f, freight_hole& x) {
  uint8_t rank = 0;
  if (caf::error e = f(x.place, x.dtype, rank)) return e;
  x.dims.resize(rank);
  for (int64_t& dim : x.dims) {
    if (caf::error e = f(dim)) return e;
  }
  return f(x.bytes);
}

caf::error inspect(caf::serializer& f, freight_note& x) {
  auto holes = static_cast<uint32_t>(x.holes.size());
  auto kind = static_cast<uint8_t>(x.message.index());
  if (caf::error e = f(x.from, x.to, x.number, x.piece, x.pool, holes)) return e;
  for (freight_hole& hole : x.holes) {
    if (caf::error e = f(hole)) return e;
  }
  if (caf::error e = f(kind)) return e;
  return std::visit([&](auto& m) -> caf::error { return f(m); }, x.message);
}
caf::error inspect(caf::deserializer& f, freight_note& x) try {
  uint32_t holes = 0;
  uint8_t kind = 0;
  if (caf::error e = f(x.from, x.to, x.number, x.piece, x.pool, holes)) return e;
  if (holes > kMostHoles) return caf::sec::invalid_argument;
  x.holes.clear();
  // Memory is taken as they come.
  for (; holes > 0; --holes) {
    if (caf::error e = f(x.holes.emplace_back())) return e;
  }
  if (caf::error e = f(kind)) return e;
  return ReadMessage(f, kind, &x.message);
} catch (const std::bad_alloc&) {
  return caf::sec::runtime_error;
}

caf::error inspect(caf::serializer& f, freight_piece& x) {
  if (caf::error e = f(x.from, x.to, x.number, x.hole, x.offset, x.size, x.ticket)) return e;
  if (x.ticket != 0) return f(x.lease);
  if (x.size == 0) return caf::none;
  if (!x.source.valid() || x.offset > x.source.bytes() || x.size > x.source.bytes() - x.offset)
    return caf::sec::invalid_argument;
  return f.apply_raw(x.size, static_cast<char*>(x.source.raw()) + x.offset);
}
caf::error inspect(caf::deserializer& f, freight_piece& x) {
  if (caf::error e = f(x.from, x.to, x.number, x.hole, x.offset, x.size, x.ticket)) return e;
  x.taken = x.adopted = false;
  x.source = Tensor();
  const auto berth = FreightBerth::Find({x.to, x.from, x.number, x.hole});
  if (x.ticket != 0) {
    if (caf::error e = f(x.lease)) return e;
    if (x.lease.pid != 0) {
      if (berth != nullptr) berth->Adopt(&x);
      return caf::none;
    }
    const SharedView* const pool = berth != nullptr ? berth->pool() : nullptr;
    const char* const from = pool != nullptr ? pool->At(x.ticket, x.size) : nullptr;
    char* const to = from != nullptr ? berth->Claim(x.offset, x.size) : nullptr;
    if (to == nullptr) return caf::none;
    std::memcpy(to, from, x.size);
    x.taken = true;
    return caf::none;
  }
  auto* const bytes = dynamic_cast<caf::binary_deserializer*>(&f);
  if (bytes == nullptr || x.size > bytes->remaining()) return caf::sec::end_of_stream;
  if (char* const to = berth != nullptr ? berth->Claim(x.offset, x.size) : nullptr) {
    x.taken = true;
    return f.apply_raw(x.size, to);
  }
  bytes->skip(x.size);
  return caf::none;
}

caf::error inspect(caf::serializer& f, freight_gone& x) {
  wire::StatusFields status = wire::FieldsOf(x.status);
  return f(x.from, x.to, x.number, status);
}
caf::error inspect(caf::deserializer& f, freight_gone& x) {
  wire::StatusFields status;
  if (caf::error e = f(x.from, x.to, x.number, status)) return e;
  x.status = wire::StatusOf(status);
  return caf::none;
}

}  // namespace troupe
