// Pictures as bytes of a file, and back: PNG by libpng, JPEG by libjpeg, GIF by giflib, BMP here.
//
// Each reader first reads the header, so that the caller can make room for the pixels, and then the
// pixels: rows from the top, channels side by side. What a header claims is checked against the
// number of bytes that are there before anything of that size is allocated (CheckClaim): no form
// can pack more pixels into a byte than that allows.
//
// libpng and libjpeg report errors by longjmp. Every call into them is made in a function that has
// no object with a destructor between its setjmp and the call.
//
// Errors are INVALID_ARGUMENT with the form and the byte or row at which it failed.
//
// Thread rule: one thread at a time; different readers are independent.
#ifndef TROUPE_KERNELS_IMAGE_CODECS_H_
#define TROUPE_KERNELS_IMAGE_CODECS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "troupe/status.h"

namespace troupe::image {

enum class FileForm : uint8_t { kUnknown, kPng, kJpeg, kGif, kBmp };
// By the first bytes.
FileForm FormOf(std::string_view bytes);

// INVALID_ARGUMENT when a picture of so many pixels cannot stand in a file of so many bytes, of
// which each can hold at most `pixels_per_byte`; or when it has 2^29 pixels or more.
absl::Status CheckClaim(std::string_view form, int64_t width, int64_t height, int64_t frames, size_t bytes,
                        int64_t pixels_per_byte);

struct Size {
  int64_t height = 0, width = 0;
  int channels = 0;
};

class PngReader {
 public:
  // `channels`: 0 (as in the file) to 4. `bits`: 8 or 16 for each channel of the result, which is
  // then an array of uint8 or of uint16. The bytes must outlive the reader.
  static absl::StatusOr<std::unique_ptr<PngReader>> Open(std::string_view bytes, int channels, int bits);
  ~PngReader();
  const Size& size() const { return size_; }
  absl::Status Read(void* pixels);

 private:
  struct Impl;
  PngReader();
  std::unique_ptr<Impl> impl_;
  Size size_;
};

struct JpegOptions {
  int channels = 0;  // 0 (as in the file), 1 or 3
  int ratio = 1;     // 1, 2, 4 or 8: the size is divided by it
  bool fancy_upscaling = true;
  // Rows that are missing at the end are grey, instead of an error, when at least this part of all
  // rows is there.
  bool try_recover_truncated = false;
  float acceptable_fraction = 1;
  bool fast_dct = true;  // as TensorFlow's default
  // Of the picture (after `ratio`), what is given; all of it when `height` is 0.
  struct Crop {
    int64_t y = 0, x = 0, height = 0, width = 0;
  };
  Crop crop;
};

class JpegReader {
 public:
  // INVALID_ARGUMENT when `options.crop` does not lie in the picture.
  static absl::StatusOr<std::unique_ptr<JpegReader>> Open(std::string_view bytes, const JpegOptions& options);
  ~JpegReader();
  const Size& size() const { return size_; }
  // What the file itself has: 4 of CMYK, which is given as 3 or 1.
  int components() const;
  absl::Status Read(uint8_t* pixels);

 private:
  struct Impl;
  JpegReader();
  std::unique_ptr<Impl> impl_;
  Size size_;
};

class GifReader {
 public:
  static absl::StatusOr<std::unique_ptr<GifReader>> Open(std::string_view bytes);
  // Of one frame; 3 channels.
  const Size& size() const { return size_; }
  int64_t frames() const { return frames_; }
  // The first `frames` frames, each over the ones before.
  absl::Status Read(int64_t frames, uint8_t* pixels);

 private:
  GifReader() = default;
  std::string_view bytes_;
  Size size_;
  int64_t frames_ = 0;
};

class BmpReader {
 public:
  // `channels`: 0 (as in the file), 3 or 4; or 1 when the file has 1.
  static absl::StatusOr<BmpReader> Open(std::string_view bytes, int channels);
  const Size& size() const { return size_; }
  void Read(uint8_t* pixels) const;

 private:
  std::string_view bytes_;
  Size size_;
  bool from_top_ = false;
  int stored_ = 0;  // channels in the file
  size_t begin_ = 0, row_ = 0;
};

// `pixels`: of uint8 or (bits = 16) uint16. `compression`: zlib's level, -1 for its default.
absl::StatusOr<std::string> WritePng(const void* pixels, const Size& size, int bits, int compression);

struct JpegWriteOptions {
  int quality = 95;
  bool progressive = false, optimize_size = false, chroma_downsampling = true;
  bool per_centimetre = false;  // of the densities: dots per inch otherwise
  int x_density = 300, y_density = 300;
  std::string xmp_metadata;
};
// 1 or 3 channels.
absl::StatusOr<std::string> WriteJpeg(const uint8_t* pixels, const Size& size, const JpegWriteOptions& options);

}  // namespace troupe::image

#endif  // TROUPE_KERNELS_IMAGE_CODECS_H_
