#include "graph/files/png.h"

#include <csetjmp>

#include <png.h>

namespace troupe::files {
namespace {

struct Encoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::string bytes, problem;
  ~Encoder() { png_destroy_write_struct(&png, &info); }
};

void Append(png_structp png, png_bytep bytes, size_t n) {
  static_cast<Encoder*>(png_get_io_ptr(png))->bytes.append(reinterpret_cast<const char*>(bytes), n);
}

[[noreturn]] void Fail(png_structp png, png_const_charp message) {
  static_cast<Encoder*>(png_get_error_ptr(png))->problem = message;
  std::longjmp(png_jmpbuf(png), 1);
}

// Apart from what has destructors: libpng comes back here by longjmp. False after an error.
bool Write(Encoder* e, const uint8_t* pixels, uint32_t width, uint32_t height, int channels) {
  static constexpr int kTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                   PNG_COLOR_TYPE_RGB_ALPHA};
  if (setjmp(png_jmpbuf(e->png)) != 0) return false;
  png_set_write_fn(e->png, e, Append, [](png_structp) {});
  png_set_IHDR(e->png, e->info, width, height, 8, kTypes[channels - 1], PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(e->png, e->info);
  for (uint32_t y = 0; y < height; ++y) {
    png_write_row(e->png, pixels + static_cast<size_t>(y) * width * static_cast<size_t>(channels));
  }
  png_write_end(e->png, nullptr);
  return true;
}

}  // namespace

absl::StatusOr<std::string> EncodePng(const uint8_t* pixels, int64_t width, int64_t height, int channels) {
  constexpr int64_t kMost = PNG_USER_WIDTH_MAX;  // which is libpng's limit of both
  if (channels < 1 || channels > 4) return InvalidArgument("a PNG has 1 to 4 channels, not ", channels);
  if (width < 1 || height < 1 || width > kMost || height > kMost) {
    return InvalidArgument("an image of ", width, " x ", height, " pixels cannot be written as PNG");
  }
  Encoder e;
  e.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &e, Fail, [](png_structp, png_const_charp) {});
  if (e.png != nullptr) e.info = png_create_info_struct(e.png);
  if (e.png == nullptr || e.info == nullptr) return ResourceExhausted("libpng has no memory");
  if (!Write(&e, pixels, static_cast<uint32_t>(width), static_cast<uint32_t>(height), channels)) {
    return Internal("libpng: ", e.problem);
  }
  return std::move(e.bytes);
}

}  // namespace troupe::files
