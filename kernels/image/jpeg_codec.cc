#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <jpeglib.h>

#include "kernels/image/codecs.h"

namespace troupe::image {
namespace {

// A file may have any number of scans over the same pixels; nobody makes one with more than these.
constexpr int kMostScans = 500;

struct JpegErrors {
  jpeg_error_mgr base;
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX] = {};
};
[[noreturn]] void OnJpegError(j_common_ptr c) {
  auto* errors = reinterpret_cast<JpegErrors*>(c->err);
  c->err->format_message(c, errors->message);
  std::longjmp(errors->jump, 1);
}
void OnMessage(j_common_ptr, int) {}
void NoOutput(j_common_ptr) {}

jpeg_error_mgr* Prepare(JpegErrors* errors) {
  jpeg_error_mgr* base = jpeg_std_error(&errors->base);
  base->error_exit = OnJpegError;
  base->emit_message = OnMessage;
  base->output_message = NoOutput;
  return base;
}

}  // namespace

struct JpegReader::Impl {
  ~Impl() { jpeg_destroy_decompress(&c); }

  // The source is all bytes at once; behind them, the end of a picture is made up, and `ended` says
  // so.
  struct Source {
    jpeg_source_mgr base;
    Impl* self;
  };
  static boolean Fill(j_decompress_ptr c) {
    static const JOCTET kEnd[] = {0xff, JPEG_EOI};
    reinterpret_cast<Source*>(c->src)->self->ended = true;
    c->src->next_input_byte = kEnd;
    c->src->bytes_in_buffer = 2;
    return TRUE;
  }
  static void Skip(j_decompress_ptr c, long n) {
    if (n <= 0) return;
    if (static_cast<size_t>(n) > c->src->bytes_in_buffer) {
      (void)Fill(c);
      return;
    }
    c->src->next_input_byte += n;
    c->src->bytes_in_buffer -= static_cast<size_t>(n);
  }
  static void Nothing(j_decompress_ptr) {}
  static void Watch(j_common_ptr c) {
    auto* self = reinterpret_cast<j_decompress_ptr>(c);
    if (self->input_scan_number <= kMostScans) return;
    auto* errors = reinterpret_cast<JpegErrors*>(c->err);
    std::snprintf(errors->message, sizeof(errors->message), "it has more than %d scans", kMostScans);
    std::longjmp(errors->jump, 1);
  }

  bool ReadHeader() {
    c.err = Prepare(&errors);
    if (setjmp(errors.jump) != 0) return false;
    jpeg_create_decompress(&c);
    source.base = {};
    source.base.init_source = Nothing;
    source.base.fill_input_buffer = Fill;
    source.base.skip_input_data = Skip;
    source.base.resync_to_restart = jpeg_resync_to_restart;
    source.base.term_source = Nothing;
    source.base.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
    source.base.bytes_in_buffer = bytes.size();
    source.self = this;
    c.src = &source.base;
    progress.progress_monitor = Watch;
    c.progress = &progress;
    return jpeg_read_header(&c, TRUE) == JPEG_HEADER_OK;
  }

  bool Start() {
    if (setjmp(errors.jump) != 0) return false;
    c.scale_num = 1;
    c.scale_denom = static_cast<unsigned>(options.ratio);
    c.do_fancy_upsampling = options.fancy_upscaling ? TRUE : FALSE;
    c.dct_method = options.fast_dct ? JDCT_IFAST : JDCT_ISLOW;
    const int channels = options.channels != 0 ? options.channels : std::min(c.num_components, 3);
    cmyk = channels == 3 && (c.jpeg_color_space == JCS_CMYK || c.jpeg_color_space == JCS_YCCK);
    c.out_color_space = channels == 1 ? JCS_GRAYSCALE : cmyk ? JCS_CMYK : JCS_RGB;
    jpeg_calc_output_dimensions(&c);
    this->channels = channels;
    return true;
  }

  bool cropped() const { return options.crop.height > 0; }
  bool HasCrop() const {
    const JpegOptions::Crop& o = options.crop;
    return o.y >= 0 && o.x >= 0 && o.height > 0 && o.width > 0 && o.height <= c.output_height - o.y &&
           o.width <= c.output_width - o.x && o.y <= c.output_height && o.x <= c.output_width;
  }

  // Rows of `stride` bytes; of CMYK and of a crop through `whole`, which holds a row of the file.
  bool ReadRows(uint8_t* to, size_t stride, uint8_t* whole) {
    if (setjmp(errors.jump) != 0) return false;
    jpeg_start_decompress(&c);
    size_t rows = c.output_height, skipped = 0;
    if (cropped()) {
      // Columns of blocks are left out by the library: it begins where a block does.
      auto x = static_cast<JDIMENSION>(options.crop.x), width = static_cast<JDIMENSION>(options.crop.width);
      jpeg_crop_scanline(&c, &x, &width);
      skipped = static_cast<size_t>(options.crop.x) - x;
      rows = static_cast<size_t>(options.crop.height);
      const auto above = static_cast<JDIMENSION>(options.crop.y);
      if (above > 0 && jpeg_skip_scanlines(&c, above) != above) return true;
    }
    while (row < rows) {
      uint8_t* const out = to + row * stride;
      JSAMPROW at = cmyk || cropped() ? whole : out;
      if (jpeg_read_scanlines(&c, &at, 1) != 1) break;
      if (ended && !options.try_recover_truncated) break;  // this row is not all there
      if (cmyk) {
        ToRgb(whole + skipped * 4, stride / 3, out);
      } else if (cropped()) {
        std::memcpy(out, whole + skipped * static_cast<size_t>(channels), stride);
      }
      ++row;
    }
    return true;
  }
  void ToRgb(const uint8_t* ink, size_t width, uint8_t* rgb) const {
    for (size_t x = 0; x < width; ++x, ink += 4, rgb += 3) {
      const int k = ink[3];
      for (int i = 0; i < 3; ++i) {
        // Adobe's programs write the inks inverted.
        rgb[i] = static_cast<uint8_t>(c.saw_Adobe_marker ? k * ink[i] / 255 : (255 - k) * (255 - ink[i]) / 255);
      }
    }
  }

  size_t At() const { return ended ? bytes.size() : bytes.size() - source.base.bytes_in_buffer; }
  absl::Status Error() const {
    const char* const why = ended ? "the bytes are cut off" : errors.message;
    return InvalidArgument("the JPEG is damaged at byte ", At(), " of ", bytes.size(), ": ", why);
  }

  std::string_view bytes;
  JpegOptions options;
  jpeg_decompress_struct c = {};
  Source source = {};
  jpeg_progress_mgr progress = {};
  bool cmyk = false, ended = false;
  int channels = 0;
  size_t row = 0;
  JpegErrors errors;
};

JpegReader::JpegReader() : impl_(std::make_unique<Impl>()) {}
JpegReader::~JpegReader() = default;
int JpegReader::components() const { return impl_->c.num_components; }

absl::StatusOr<std::unique_ptr<JpegReader>> JpegReader::Open(std::string_view bytes, const JpegOptions& options) {
  std::unique_ptr<JpegReader> r(new JpegReader);
  Impl& i = *r->impl_;
  i.bytes = bytes;
  i.options = options;
  if (!i.ReadHeader()) return i.Error();
  if (i.ended) return i.Error();
  // A bit tells at least one block of 8 x 8 pixels.
  TROUPE_RETURN_IF_ERROR(CheckClaim("JPEG", i.c.image_width, i.c.image_height, 1, bytes.size(), 512));
  if (!i.Start()) return i.Error();
  r->size_ = {i.c.output_height, i.c.output_width, i.channels};
  if (i.cropped()) {
    const JpegOptions::Crop& o = options.crop;
    if (!i.HasCrop()) {
      return InvalidArgument("the window of ", o.height, " x ", o.width, " at row ", o.y, ", column ", o.x,
                             " does not lie in the picture of ", r->size_.height, " x ", r->size_.width);
    }
    r->size_ = {o.height, o.width, i.channels};
  }
  return r;
}

absl::Status JpegReader::Read(uint8_t* pixels) {
  Impl& i = *impl_;
  const size_t stride = static_cast<size_t>(size_.width) * static_cast<size_t>(size_.channels);
  std::string whole(i.cmyk || i.cropped() ? static_cast<size_t>(i.c.output_width) * 4 : 0, '\0');
  const bool read = i.ReadRows(pixels, stride, reinterpret_cast<uint8_t*>(whole.data()));
  const auto height = static_cast<size_t>(size_.height);
  if (i.row == height) return absl::OkStatus();
  if (!i.options.try_recover_truncated ||
      static_cast<float>(i.row) < i.options.acceptable_fraction * static_cast<float>(height)) {
    return Annotate(i.Error(), StrCat("row ", i.row, " of ", height));
  }
  (void)read;
  std::memset(pixels + i.row * stride, 128, (height - i.row) * stride);
  return absl::OkStatus();
}

namespace {

struct JpegWriter {
  ~JpegWriter() {
    jpeg_destroy_compress(&c);
    std::free(out);
  }

  bool Write(const uint8_t* pixels, const Size& size, const JpegWriteOptions& o) {
    c.err = Prepare(&errors);
    if (setjmp(errors.jump) != 0) return false;
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &length);
    c.image_width = static_cast<JDIMENSION>(size.width);
    c.image_height = static_cast<JDIMENSION>(size.height);
    c.input_components = size.channels;
    c.in_color_space = size.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&c);
    if (o.optimize_size) c.optimize_coding = TRUE;
    c.density_unit = o.per_centimetre ? 2 : 1;
    c.X_density = static_cast<UINT16>(o.x_density);
    c.Y_density = static_cast<UINT16>(o.y_density);
    jpeg_set_quality(&c, o.quality, TRUE);
    if (o.progressive) jpeg_simple_progression(&c);
    if (!o.chroma_downsampling) {
      for (int i = 0; i < c.num_components; ++i) {
        c.comp_info[i].h_samp_factor = 1;
        c.comp_info[i].v_samp_factor = 1;
      }
    }
    jpeg_start_compress(&c, TRUE);
    if (!o.xmp_metadata.empty()) {
      jpeg_write_marker(&c, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(o.xmp_metadata.data()),
                        static_cast<unsigned>(o.xmp_metadata.size()));
    }
    const size_t row = static_cast<size_t>(size.width) * static_cast<size_t>(size.channels);
    while (c.next_scanline < c.image_height) {
      JSAMPROW at = const_cast<JSAMPROW>(pixels + c.next_scanline * row);
      jpeg_write_scanlines(&c, &at, 1);
    }
    jpeg_finish_compress(&c);
    return true;
  }

  jpeg_compress_struct c = {};
  unsigned char* out = nullptr;
  unsigned long length = 0;
  JpegErrors errors;
};

}  // namespace

absl::StatusOr<std::string> WriteJpeg(const uint8_t* pixels, const Size& size, const JpegWriteOptions& options) {
  JpegWriteOptions o = options;
  if (!o.xmp_metadata.empty()) o.xmp_metadata.insert(0, "http://ns.adobe.com/xap/1.0/", 29);
  if (o.xmp_metadata.size() > 65533)
    return InvalidArgument("xmp_metadata is too long: a JPEG has room for 65504 bytes");
  JpegWriter w;
  if (!w.Write(pixels, size, o)) return InvalidArgument("no JPEG can be made of it: ", w.errors.message);
  return std::string(reinterpret_cast<const char*>(w.out), w.length);
}

}  // namespace troupe::image
