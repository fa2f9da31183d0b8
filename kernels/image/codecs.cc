#include "kernels/image/codecs.h"

#include <algorithm>
#include <cstring>

#include "troupe/shape.h"

namespace troupe::image {

FileForm FormOf(std::string_view bytes) {
  const auto begins = [&](std::string_view with) { return bytes.substr(0, with.size()) == with; };
  if (begins("\x89PNG\r\n\x1a\n")) return FileForm::kPng;
  if (begins("\xff\xd8\xff")) return FileForm::kJpeg;
  if (begins("GIF8")) return FileForm::kGif;
  if (begins("BM")) return FileForm::kBmp;
  return FileForm::kUnknown;
}

absl::Status CheckClaim(std::string_view form, int64_t width, int64_t height, int64_t frames, size_t bytes,
                        int64_t pixels_per_byte) {
  // Small pictures may be anything: their headers count as pixels here.
  constexpr int64_t kSmall = int64_t{1} << 16, kMost = int64_t{1} << 29;
  const int64_t each = MultiplyWithoutOverflow(width, height);
  const int64_t pixels = each < 0 ? -1 : MultiplyWithoutOverflow(each, frames);
  const int64_t room = MultiplyWithoutOverflow(static_cast<int64_t>(bytes), pixels_per_byte);
  if (width > 0 && height > 0 && frames > 0 && pixels >= 0 && pixels < kMost && (room < 0 || pixels <= room + kSmall)) {
    return absl::OkStatus();
  }
  return InvalidArgument("the ", form, " claims ", frames == 1 ? "" : StrCat(frames, " pictures of "), width, " x ",
                         height, " pixels, ", pixels >= 0 && pixels < kMost && pixels > 0 ? "more than its " : "in ",
                         bytes, " bytes", pixels >= 0 && pixels < kMost && pixels > 0 ? " can hold" : "");
}

namespace {
uint32_t Word(std::string_view bytes, size_t at) {
  uint32_t v = 0;
  for (size_t i = 4; i-- > 0;) v = v << 8 | static_cast<uint8_t>(bytes[at + i]);
  return v;
}
}  // namespace

// A file header of 14 bytes with the place of the pixels, and an information header with size, bits
// and compression. Rows are a multiple of four bytes long.
absl::StatusOr<BmpReader> BmpReader::Open(std::string_view bytes, int channels) {
  if (bytes.size() < 32) return InvalidArgument("the BMP ends at byte ", bytes.size(), ", in its header");
  BmpReader r;
  r.bytes_ = bytes;
  r.begin_ = Word(bytes, 10);
  const auto width = static_cast<int32_t>(Word(bytes, 18)), height = static_cast<int32_t>(Word(bytes, 22));
  const uint32_t bits = static_cast<uint8_t>(bytes[28]) + (static_cast<uint8_t>(bytes[29]) << 8);
  if (bits != 8 && bits != 24 && bits != 32) {
    return InvalidArgument("the BMP has ", bits, " bits for each pixel, but only 8, 24 and 32 are known here");
  }
  if (bytes.size() >= 34) {
    const uint32_t compression = Word(bytes, 30);
    if (compression == 1 || compression == 2) return InvalidArgument("the BMP is compressed, which is not known here");
  }
  r.from_top_ = height < 0;
  r.stored_ = static_cast<int>(bits / 8);
  if (channels != 0 && channels < 3 && channels != r.stored_) {
    return InvalidArgument("the BMP has ", r.stored_, " channels, and not ", channels);
  }
  r.size_ = {std::abs(int64_t{height}), width, channels == 0 ? r.stored_ : channels};
  TROUPE_RETURN_IF_ERROR(CheckClaim("BMP", r.size_.width, r.size_.height, 1, bytes.size(), 1));
  r.row_ = static_cast<size_t>((r.size_.width * r.stored_ + 3) / 4 * 4);
  const size_t end =
      r.begin_ + r.row_ * static_cast<size_t>(r.size_.height - 1) + static_cast<size_t>(r.size_.width * r.stored_);
  if (end > bytes.size()) {
    return InvalidArgument("the BMP of ", width, " x ", r.size_.height, " pixels ends at byte ", bytes.size(),
                           ", but needs ", end);
  }
  return r;
}

// Colours are stored as blue, green, red; a grey pixel has one byte for all of them.
void BmpReader::Read(uint8_t* pixels) const {
  const auto width = static_cast<size_t>(size_.width), channels = static_cast<size_t>(size_.channels);
  const auto stored = static_cast<size_t>(stored_);
  for (int64_t y = 0; y < size_.height; ++y) {
    const auto row = static_cast<size_t>(from_top_ ? y : size_.height - 1 - y);
    const auto* from = reinterpret_cast<const uint8_t*>(bytes_.data()) + begin_ + row * row_;
    uint8_t* to = pixels + static_cast<size_t>(y) * width * channels;
    for (size_t x = 0; x < width; ++x, from += stored, to += channels) {
      to[0] = stored == 1 ? from[0] : from[2];
      if (channels == 1) continue;
      to[1] = stored == 1 ? from[0] : from[1];
      to[2] = from[0];
      if (channels == 4) to[3] = stored == 4 ? from[3] : 255;
    }
  }
}

}  // namespace troupe::image
