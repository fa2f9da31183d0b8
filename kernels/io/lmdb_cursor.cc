// The pairs of an LMDB file, in the order of their keys. The file is read page by page with every
// number in it checked: liblmdb maps files into memory and trusts them, so that a damaged one would
// end the process, and can read local disks only. tests/queue/lmdb_test.cc has files that it wrote.
//
// The format: pages of one size. Pages 0 and 1 are headers, of which the one with the newer
// transaction counts. A tree of branch and leaf pages hangs on the root that it names. A page has
// its number (8 bytes), 2 that are not used, flags (2), and behind these the end of a list of
// offsets (2), which begins at byte 16. Each offset leads to a node in the page: 4 bytes of a
// number, flags (2), the length of its key (2), the key, and in leaves the value. The number is the
// length of the value, or, with the flags of the node as its upper part, the page below a branch. A
// large value lies behind the head of a row of pages, whose number stands in its place. All numbers
// are little-endian.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/io/cursor.h"
#include "troupe/files.h"
#include "troupe/strings.h"

namespace troupe::io {
namespace {

constexpr size_t kPageHead = 16, kNodeHead = 8, kMetaBytes = 136;
constexpr uint64_t kNoPage = ~uint64_t{0};
// Flags of pages, nodes and databases.
constexpr uint16_t kBranch = 1, kLeaf = 2, kOverflow = 4, kMeta = 8;
constexpr uint16_t kBigData = 1, kDupData = 4;
constexpr uint16_t kDupSort = 4;
constexpr size_t kDeepest = 32;  // levels of a tree, as in liblmdb

template <class T>
T NumberAt(std::string_view bytes, size_t at) {
  T v = 0;
  for (size_t i = sizeof(T); i > 0; --i) v = static_cast<T>(v << 8 | static_cast<uint8_t>(bytes[at + i - 1]));
  return v;
}

class LmdbCursor : public Cursor {
 public:
  LmdbCursor(std::unique_ptr<files::ReadableFile> file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}

  // Reads the headers, and goes to record `from`.
  absl::Status Open(uint64_t from) {
    TROUPE_ASSIGN_OR_RETURN(bytes_, file_->Size());
    TROUPE_ASSIGN_OR_RETURN(const std::string first, Bytes(0, kPageHead + kMetaBytes));
    TROUPE_RETURN_IF_ERROR(CheckMeta(first));
    page_ = NumberAt<uint32_t>(first, kPageHead + 24);
    if (page_ < 256 || page_ > 65536 || (page_ & (page_ - 1)) != 0) return Damaged("its pages have ", page_, " bytes");
    TROUPE_ASSIGN_OR_RETURN(const std::string second, Bytes(page_, kPageHead + kMetaBytes));
    TROUPE_RETURN_IF_ERROR(CheckMeta(second));
    const auto transaction = [](const std::string& meta) { return NumberAt<uint64_t>(meta, kPageHead + 128); };
    const std::string& meta = transaction(first) < transaction(second) ? second : first;
    if ((NumberAt<uint16_t>(meta, kPageHead + 76) & kDupSort) != 0)
      return Unimplemented(path_, ": an LMDB file with several values of a key");
    const auto root = NumberAt<uint64_t>(meta, kPageHead + 112);
    if (root != kNoPage) TROUPE_RETURN_IF_ERROR(Descend(root));
    while (number_ < from) {
      TROUPE_ASSIGN_OR_RETURN(const bool more, NextNode());
      if (!more) break;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Next(std::string_view* record) override {
    TROUPE_ASSIGN_OR_RETURN(const bool more, NextNode());
    if (!more) return false;
    const Level& leaf = path_down_.back();
    const std::string_view page = leaf.bytes;
    const size_t value = node_ + kNodeHead + key_.size(), length = NumberAt<uint32_t>(page, node_);
    const auto flags = NumberAt<uint16_t>(page, node_ + 4);
    if ((flags & kDupData) != 0) return Damaged("a key has several values");
    if ((flags & kBigData) == 0) {
      if (length > page.size() - value) return Damaged("a value ends behind its page");
      *record = page.substr(value, length);
      return true;
    }
    if (page.size() - value < 8) return Damaged("a node ends behind its page");
    const auto big = NumberAt<uint64_t>(page, value);
    TROUPE_ASSIGN_OR_RETURN(const std::string head, PageBytes(big, kPageHead));
    if ((NumberAt<uint16_t>(head, 10) & kOverflow) == 0) return Damaged("page ", big, " holds no large value");
    TROUPE_ASSIGN_OR_RETURN(value_, Bytes(big * page_ + kPageHead, length));
    *record = value_;
    return true;
  }
  std::string_view key() const override { return key_; }
  uint64_t offset() const override { return number_; }

 private:
  struct Level {
    std::string bytes;
    size_t next, nodes;
  };

  template <class... What>
  absl::Status Damaged(const What&... what) const {
    return DataLoss(path_, " is no LMDB file, or is damaged: ", what...);
  }
  // So many from `offset` on, which a sound file has.
  absl::StatusOr<std::string> Bytes(uint64_t offset, size_t n) const {
    if (offset > bytes_ || n > bytes_ - offset) return Damaged("it ends before byte ", offset, " + ", n);
    std::string bytes(n, '\0');
    TROUPE_ASSIGN_OR_RETURN(const size_t got, file_->ReadAt(offset, n, bytes.data()));
    if (got != n) return Damaged("it ends before byte ", offset, " + ", n);
    return bytes;
  }
  absl::StatusOr<std::string> PageBytes(uint64_t page, size_t n) const {
    if (page < 2 || page >= bytes_ / page_) return Damaged("it has no page ", page);
    return Bytes(page * page_, n);
  }
  absl::Status CheckMeta(std::string_view meta) const {
    if ((NumberAt<uint16_t>(meta, 10) & kMeta) == 0 || NumberAt<uint32_t>(meta, kPageHead) != 0xbeefc0de)
      return Damaged("it does not begin as one");
    const auto version = NumberAt<uint32_t>(meta, kPageHead + 4);
    return version == 1 ? absl::OkStatus() : Damaged("it has version ", version);
  }

  // Down to the first leaf below `page`.
  absl::Status Descend(uint64_t page) {
    for (;;) {
      // Of a tree each page is met once; in a circle this ends.
      if (path_down_.size() >= kDeepest || ++met_ > bytes_ / page_) return Damaged("its pages are no tree");
      TROUPE_ASSIGN_OR_RETURN(std::string bytes, PageBytes(page, page_));
      const auto flags = NumberAt<uint16_t>(bytes, 10);
      const size_t lower = NumberAt<uint16_t>(bytes, 12);
      if (lower < kPageHead || lower > page_ || (flags & (kBranch | kLeaf)) == 0 || (flags & ~(kBranch | kLeaf)) != 0)
        return Damaged("page ", page, " is none of its tree");
      path_down_.push_back({std::move(bytes), 0, (lower - kPageHead) / 2});
      if ((flags & kBranch) == 0) return absl::OkStatus();
      TROUPE_ASSIGN_OR_RETURN(page, Child());
    }
  }
  // The next node of the lowest page: where it begins.
  absl::StatusOr<size_t> Node() {
    Level& level = path_down_.back();
    if (level.next == level.nodes) return Damaged("a branch leads nowhere");
    const size_t at = NumberAt<uint16_t>(level.bytes, kPageHead + 2 * level.next++);
    if (at < kPageHead || at + kNodeHead > level.bytes.size()) return Damaged("a node lies outside of its page");
    return at;
  }
  absl::StatusOr<uint64_t> Child() {
    TROUPE_ASSIGN_OR_RETURN(const size_t at, Node());
    const std::string_view bytes = path_down_.back().bytes;
    return NumberAt<uint32_t>(bytes, at) | uint64_t{NumberAt<uint16_t>(bytes, at + 4)} << 32;
  }
  // Goes to the next pair: node_ and key_.
  absl::StatusOr<bool> NextNode() {
    while (!path_down_.empty() && path_down_.back().next == path_down_.back().nodes) {
      path_down_.pop_back();
      if (path_down_.empty() || path_down_.back().next == path_down_.back().nodes) continue;
      TROUPE_ASSIGN_OR_RETURN(const uint64_t page, Child());
      TROUPE_RETURN_IF_ERROR(Descend(page));
    }
    if (path_down_.empty()) return false;
    TROUPE_ASSIGN_OR_RETURN(node_, Node());
    const std::string_view page = path_down_.back().bytes;
    const size_t length = NumberAt<uint16_t>(page, node_ + 6);
    if (length > page.size() - node_ - kNodeHead) return Damaged("a key ends behind its page");
    key_ = page.substr(node_ + kNodeHead, length);
    ++number_;
    return true;
  }

  const std::unique_ptr<files::ReadableFile> file_;
  const std::string path_;
  uint64_t bytes_ = 0;
  size_t page_ = 0;               // bytes of a page
  std::vector<Level> path_down_;  // from the root to the leaf
  uint64_t met_ = 0, number_ = 0;
  size_t node_ = 0;
  std::string_view key_;
  std::string value_;  // a large one
};

}  // namespace

absl::StatusOr<std::unique_ptr<Cursor>> OpenLmdb(const std::string& path, uint64_t from) {
  std::string file = path;
  TROUPE_ASSIGN_OR_RETURN(const files::FileStat stat, files::Stat(path));
  if (stat.is_directory) file = files::Join(path, "data.mdb");
  TROUPE_ASSIGN_OR_RETURN(auto opened, files::OpenToRead(file));
  auto cursor = std::make_unique<LmdbCursor>(std::move(opened), std::move(file));
  TROUPE_RETURN_IF_ERROR(cursor->Open(from));
  return cursor;
}

}  // namespace troupe::io
