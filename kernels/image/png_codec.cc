#include <csetjmp>
#include <cstring>
#include <vector>

#include <png.h>

#include "kernels/image/codecs.h"

namespace troupe::image {
namespace {

// What the callbacks of libpng get.
struct PngErrors {
  std::jmp_buf jump;
  char message[200] = {};
};
[[noreturn]] void OnPngError(png_structp png, png_const_charp message) {
  auto* errors = static_cast<PngErrors*>(png_get_error_ptr(png));
  std::strncpy(errors->message, message, sizeof(errors->message) - 1);
  std::longjmp(errors->jump, 1);
}
void OnWarning(png_structp, png_const_charp) {}

}  // namespace

struct PngReader::Impl {
  ~Impl() { png_destroy_read_struct(&png, &info, nullptr); }

  static void ReadBytes(png_structp png, png_bytep to, size_t n) {
    auto* self = static_cast<Impl*>(png_get_io_ptr(png));
    if (n > self->bytes.size() - self->at) png_error(png, "the bytes are cut off");
    std::memcpy(to, self->bytes.data() + self->at, n);
    self->at += n;
  }

  // The header, up to the pixels. False after an error, as of all calls into the library.
  bool ReadHeader() {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &errors, OnPngError, OnWarning);
    if (png == nullptr) return false;
    if (setjmp(errors.jump) != 0) return false;
    info = png_create_info_struct(png);
    if (info == nullptr) return false;
    png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
    png_set_read_fn(png, this, ReadBytes);
    png_read_info(png, info);
    return png_get_IHDR(png, info, &width, &height, &depth, &color, nullptr, nullptr, nullptr) != 0;
  }

  // Asks for `channels` channels of 8 or 16 bits. The order of the transformations is TensorFlow's.
  bool Transform() {
    if (setjmp(errors.jump) != 0) return false;
    const bool transparent = png_get_valid(png, info, PNG_INFO_tRNS) != 0;
    if (channels == 0) {
      channels = color == PNG_COLOR_TYPE_PALETTE ? (transparent ? 4 : 3) : png_get_channels(png, info);
    }
    const bool alpha = (color & PNG_COLOR_MASK_ALPHA) != 0, wants_alpha = channels % 2 == 0;
    if (alpha || transparent) {
      if (!wants_alpha) png_set_strip_alpha(png);
      if (wants_alpha && !alpha) png_set_tRNS_to_alpha(png);
    } else if (wants_alpha) {
      png_set_add_alpha(png, (1u << depth) - 1, PNG_FILLER_AFTER);
    }
    if (depth > 8 && bits <= 8) png_set_strip_16(png);
    widen = depth <= 8 && bits == 16;
    png_set_packing(png);
    passes = png_set_interlace_handling(png);
    if (bits > 8) png_set_swap(png);
    if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
    const bool grey = (color & PNG_COLOR_MASK_COLOR) == 0;
    if (grey && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
    if (channels < 3) {
      if (!grey) png_set_rgb_to_gray(png, PNG_ERROR_ACTION_NONE, 0.299, 0.587);
    } else if (grey) {
      png_set_gray_to_rgb(png);
    }
    png_read_update_info(png, info);
    row_bytes = png_get_rowbytes(png, info);
    return true;
  }

  bool ReadRows(uint8_t* to, size_t stride) {
    if (setjmp(errors.jump) != 0) return false;
    for (int pass = 0; pass < passes; ++pass) {
      for (row = 0; row < height; ++row) png_read_row(png, to + row * stride, nullptr);
    }
    return true;
  }

  absl::Status Error() const {
    return InvalidArgument("the PNG is damaged at byte ", at, " of ", bytes.size(), ": ",
                           errors.message[0] != '\0' ? errors.message : "its header cannot be read");
  }

  std::string_view bytes;
  size_t at = 0;
  png_structp png = nullptr;
  png_infop info = nullptr;
  png_uint_32 width = 0, height = 0, row = 0;
  int depth = 0, color = 0, channels = 0, bits = 8, passes = 1;
  bool widen = false;
  size_t row_bytes = 0;
  PngErrors errors;
};

PngReader::PngReader() : impl_(std::make_unique<Impl>()) {}
PngReader::~PngReader() = default;

absl::StatusOr<std::unique_ptr<PngReader>> PngReader::Open(std::string_view bytes, int channels, int bits) {
  std::unique_ptr<PngReader> r(new PngReader);
  Impl& i = *r->impl_;
  i.bytes = bytes;
  i.channels = channels;
  i.bits = bits;
  if (!i.ReadHeader()) return i.Error();
  // A byte of deflated data stands for at most 1032 bytes, each of at most 8 pixels.
  TROUPE_RETURN_IF_ERROR(
      CheckClaim("PNG", i.width, i.height, 1, bytes.size(), i.depth < 8 ? 1032 * 8 / i.depth : 1032));
  if (!i.Transform()) return i.Error();
  r->size_ = {i.height, i.width, i.channels};
  const size_t row = static_cast<size_t>(i.width) * static_cast<size_t>(i.channels);
  if (i.row_bytes != row * (bits == 16 && !i.widen ? 2 : 1)) {
    return InvalidArgument("the PNG cannot be read with ", i.channels, " channels");
  }
  return r;
}

absl::Status PngReader::Read(void* pixels) {
  Impl& i = *impl_;
  const size_t row = static_cast<size_t>(size_.width) * static_cast<size_t>(size_.channels);
  const size_t stride = row * (i.bits == 16 ? 2 : 1);
  auto* const to = static_cast<uint8_t*>(pixels);
  if (!i.ReadRows(to, stride)) return Annotate(i.Error(), StrCat("row ", i.row));
  if (!i.widen) return absl::OkStatus();
  // Each row begins with the bytes that become its numbers.
  for (int64_t y = 0; y < size_.height; ++y) {
    uint8_t* const from = to + static_cast<size_t>(y) * stride;
    for (size_t x = row; x-- > 0;) {
      const auto v = static_cast<uint16_t>(from[x] * 257);
      std::memcpy(from + 2 * x, &v, 2);
    }
  }
  return absl::OkStatus();
}

namespace {

struct PngWriter {
  ~PngWriter() { png_destroy_write_struct(&png, &info); }

  static void WriteBytes(png_structp png, png_bytep from, size_t n) {
    auto* self = static_cast<PngWriter*>(png_get_io_ptr(png));
    if (!self->Append(from, n)) png_error(png, "no memory is left");
  }
  bool Append(const uint8_t* from, size_t n) noexcept {
    try {
      out.append(reinterpret_cast<const char*>(from), n);
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }
  static void Flush(png_structp) {}

  bool Write(const uint8_t* pixels, const Size& size, int bits, int compression) {
    png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &errors, OnPngError, OnWarning);
    if (png == nullptr) return false;
    if (setjmp(errors.jump) != 0) return false;
    info = png_create_info_struct(png);
    if (info == nullptr) return false;
    constexpr int kColors[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                               PNG_COLOR_TYPE_RGB_ALPHA};
    png_set_write_fn(png, this, WriteBytes, Flush);
    png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
    png_set_compression_level(png, compression);
    png_set_compression_mem_level(png, 9);
    png_set_IHDR(png, info, static_cast<png_uint_32>(size.width), static_cast<png_uint_32>(size.height), bits,
                 kColors[size.channels - 1], PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    if (bits > 8) png_set_swap(png);
    const size_t row = static_cast<size_t>(size.width) * static_cast<size_t>(size.channels) * (bits == 16 ? 2 : 1);
    for (int64_t y = 0; y < size.height; ++y) png_write_row(png, pixels + static_cast<size_t>(y) * row);
    png_write_end(png, nullptr);
    return true;
  }

  png_structp png = nullptr;
  png_infop info = nullptr;
  std::string out;
  PngErrors errors;
};

}  // namespace

absl::StatusOr<std::string> WritePng(const void* pixels, const Size& size, int bits, int compression) {
  PngWriter w;
  if (!w.Write(static_cast<const uint8_t*>(pixels), size, bits, compression)) {
    return InvalidArgument("no PNG can be made of it: ", w.errors.message);
  }
  return std::move(w.out);
}

}  // namespace troupe::image
