#include <algorithm>
#include <cstring>
#include <vector>

#include <gif_lib.h>

#include "kernels/image/codecs.h"

namespace troupe::image {
namespace {

// One walk over the file: frames without their pixels, or with them.
class Walk {
 public:
  explicit Walk(std::string_view bytes) : bytes_(bytes) {}
  ~Walk() {
    if (gif_ != nullptr) DGifCloseFile(gif_, nullptr);
  }
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  absl::Status Begin() {
    int error = 0;
    gif_ = DGifOpen(this, Take, &error);
    if (gif_ == nullptr) return Error(error);
    return absl::OkStatus();
  }
  // Goes to the next frame; false behind the last one. Its pixels have to be read or passed over
  // before the next call.
  absl::StatusOr<bool> Next() {
    transparent_ = NO_TRANSPARENT_COLOR;
    for (;;) {
      // Many files lack the byte that ends them.
      if (frames_ > 0 && at_ == bytes_.size()) return false;
      GifRecordType type = UNDEFINED_RECORD_TYPE;
      if (DGifGetRecordType(gif_, &type) == GIF_ERROR) return Error(gif_->Error);
      if (type == TERMINATE_RECORD_TYPE) return false;
      if (type == IMAGE_DESC_RECORD_TYPE) {
        if (DGifGetImageDesc(gif_) == GIF_ERROR) return Error(gif_->Error);
        ++frames_;
        return true;
      }
      if (type != EXTENSION_RECORD_TYPE) continue;
      int code = 0;
      GifByteType* extension = nullptr;
      if (DGifGetExtension(gif_, &code, &extension) == GIF_ERROR) return Error(gif_->Error);
      while (extension != nullptr) {
        GraphicsControlBlock control;
        if (code == GRAPHICS_EXT_FUNC_CODE && extension[0] == 4 &&
            DGifExtensionToGCB(extension[0], extension + 1, &control) == GIF_OK) {
          transparent_ = control.TransparentColor;
        }
        if (DGifGetExtensionNext(gif_, &extension) == GIF_ERROR) return Error(gif_->Error);
      }
    }
  }
  const GifImageDesc& frame() const { return gif_->Image; }
  int transparent() const { return transparent_; }
  const ColorMapObject* colors() const { return frame().ColorMap != nullptr ? frame().ColorMap : gif_->SColorMap; }

  absl::Status PassOver() {
    int size = 0;
    GifByteType* block = nullptr;
    if (DGifGetCode(gif_, &size, &block) == GIF_ERROR) return Error(gif_->Error);
    while (block != nullptr) {
      if (DGifGetCodeNext(gif_, &block) == GIF_ERROR) return Error(gif_->Error);
    }
    return absl::OkStatus();
  }
  // Calls row(y, indices) for every row, in the file's order.
  template <class F>
  absl::Status ReadRows(std::vector<GifPixelType>* line, const F& row) {
    line->resize(static_cast<size_t>(frame().Width));
    constexpr int kFirst[] = {0, 4, 2, 1}, kStep[] = {8, 8, 4, 2};
    const bool interlaced = frame().Interlace;
    for (int pass = 0; pass < (interlaced ? 4 : 1); ++pass) {
      for (int y = interlaced ? kFirst[pass] : 0; y < frame().Height; y += interlaced ? kStep[pass] : 1) {
        if (DGifGetLine(gif_, line->data(), frame().Width) == GIF_ERROR) return Error(gif_->Error);
        TROUPE_RETURN_IF_ERROR(row(y, *line));
      }
    }
    return absl::OkStatus();
  }
  absl::Status Error(int code) const {
    const char* const why = GifErrorString(code);
    return InvalidArgument("the GIF is damaged at byte ", at_, " of ", bytes_.size(), ": ",
                           why != nullptr ? why : "no reason is given");
  }

 private:
  static int Take(GifFileType* gif, GifByteType* to, int n) {
    auto* self = static_cast<Walk*>(gif->UserData);
    const size_t got = std::min(static_cast<size_t>(std::max(n, 0)), self->bytes_.size() - self->at_);
    if (got > 0) std::memcpy(to, self->bytes_.data() + self->at_, got);
    self->at_ += got;
    return static_cast<int>(got);
  }

  const std::string_view bytes_;
  size_t at_ = 0;
  int64_t frames_ = 0;  // begun
  GifFileType* gif_ = nullptr;
  int transparent_ = NO_TRANSPARENT_COLOR;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GifReader>> GifReader::Open(std::string_view bytes) {
  Walk walk(bytes);
  TROUPE_RETURN_IF_ERROR(walk.Begin());
  std::unique_ptr<GifReader> r(new GifReader);
  r->bytes_ = bytes;
  r->size_.channels = 3;
  for (;;) {
    TROUPE_ASSIGN_OR_RETURN(const bool more, walk.Next());
    if (!more) break;
    if (walk.colors() == nullptr) return InvalidArgument("frame ", r->frames_, " of the GIF has no colours");
    // A code of LZW has at least three bits, and stands for at most 4096 pixels.
    TROUPE_RETURN_IF_ERROR(CheckClaim("GIF", walk.frame().Width, walk.frame().Height, 1, bytes.size(), 4096));
    r->size_.width = std::max<int64_t>(r->size_.width, walk.frame().Width);
    r->size_.height = std::max<int64_t>(r->size_.height, walk.frame().Height);
    ++r->frames_;
    TROUPE_RETURN_IF_ERROR(walk.PassOver());
  }
  if (r->frames_ == 0) return InvalidArgument("the GIF has no picture");
  // A frame that changes little is small, and yet a whole picture.
  TROUPE_RETURN_IF_ERROR(CheckClaim("GIF", r->size_.width, r->size_.height, r->frames_, bytes.size(), 1 << 14));
  return r;
}

absl::Status GifReader::Read(int64_t frames, uint8_t* pixels) {
  Walk walk(bytes_);
  TROUPE_RETURN_IF_ERROR(walk.Begin());
  const size_t each = static_cast<size_t>(size_.width * size_.height) * 3;
  std::vector<GifPixelType> line;
  for (int64_t k = 0; k < frames; ++k) {
    TROUPE_ASSIGN_OR_RETURN(const bool more, walk.Next());
    if (!more) return InvalidArgument("the GIF ends before frame ", k);
    uint8_t* const picture = pixels + static_cast<size_t>(k) * each;
    if (k == 0) {
      std::memset(picture, 0, each);
    } else {
      std::memcpy(picture, picture - each, each);
    }
    const GifImageDesc frame = walk.frame();
    const ColorMapObject* const colors = walk.colors();
    if (colors == nullptr) return InvalidArgument("frame ", k, " of the GIF has no colours");
    TROUPE_RETURN_IF_ERROR(walk.ReadRows(&line, [&](int row, const std::vector<GifPixelType>& indices) -> absl::Status {
      const int64_t y = int64_t{frame.Top} + row;
      if (y < 0 || y >= size_.height) return absl::OkStatus();
      for (int64_t x = 0; x < frame.Width; ++x) {
        const int64_t at = frame.Left + x;
        if (at < 0 || at >= size_.width) continue;
        const int color = indices[static_cast<size_t>(x)];
        if (color == walk.transparent()) continue;
        if (color >= colors->ColorCount) {
          return InvalidArgument("frame ", k, " of the GIF has colour ", color, ", of ", colors->ColorCount);
        }
        const GifColorType& c = colors->Colors[color];
        uint8_t* const to = picture + static_cast<size_t>(y * size_.width + at) * 3;
        to[0] = c.Red;
        to[1] = c.Green;
        to[2] = c.Blue;
      }
      return absl::OkStatus();
    }));
  }
  return absl::OkStatus();
}

}  // namespace troupe::image
