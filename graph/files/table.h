// Sorted tables of keys and values in one file, in LevelDB's format: the index of a bundle, and
// checkpoints of the first format (graph/checkpoint).
//
// A table is a row of blocks, then a block that maps each block's last key to where it lies, then
// 48 bytes that tell where that index is. table.cc draws the bytes.
//
// Thread rule: a TableReader may be used by any number of threads at once.
#ifndef TROUPE_GRAPH_FILES_TABLE_H_
#define TROUPE_GRAPH_FILES_TABLE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/files.h"

namespace troupe::files {

// Writes without compression, as TensorFlow does.
class TableWriter {
 public:
  // `file` must outlive the writer, which neither syncs nor closes it.
  explicit TableWriter(WritableFile* file) : file_(file) {}
  // REQUIRES: keys come in increasing order (as unsigned bytes); else INVALID_ARGUMENT.
  absl::Status Add(std::string_view key, std::string_view value);
  absl::Status Finish();

 private:
  struct Block {
    std::string bytes, last_key;
    std::vector<uint32_t> restarts;
    int since_restart = 0, entries = 0;
    void Add(std::string_view key, std::string_view value, int restart_interval);
    std::string Take();
  };
  // Where a block lies: two varints.
  absl::StatusOr<std::string> Put(std::string block);
  absl::Status EndBlock();

  WritableFile* const file_;
  uint64_t offset_ = 0;
  Block data_, index_;
  bool any_ = false;
  std::string last_key_;
};

class TableReader {
 public:
  // DATA_LOSS with the file's name for what is no table, or a damaged one.
  static absl::StatusOr<std::unique_ptr<TableReader>> Open(const std::string& path);
  // The value, if there is the key.
  absl::StatusOr<std::optional<std::string>> Find(std::string_view key) const;
  // In the order of keys; ends with the first error.
  absl::Status ForEach(const std::function<absl::Status(std::string_view key, std::string_view value)>& each) const;
  const std::string& path() const { return path_; }
  uint64_t file_size() const { return size_; }

 private:
  struct Part {
    std::string last_key;
    uint64_t offset, size;
  };
  TableReader() = default;
  absl::StatusOr<std::string> ReadBlock(uint64_t offset, uint64_t size) const;
  absl::Status Damaged(std::string_view why, uint64_t offset) const;
  absl::Status EachOf(std::string_view block, uint64_t at, uint64_t* key_bytes,
                      const std::function<absl::Status(std::string_view, std::string_view)>& each) const;

  std::string path_;
  std::unique_ptr<ReadableFile> file_;
  uint64_t size_ = 0;
  std::vector<Part> parts_;
};

}  // namespace troupe::files

#endif  // TROUPE_GRAPH_FILES_TABLE_H_
