// Readers: records of files whose names come from a queue.
//
//   Queue files = train::StringInputProducer(root, {"a.txt", "b.txt"}, {.num_epochs = 1});
//   auto [key, line] = Reader::TextLines(root).Read(root, files);  // "a.txt:1" and the line
//
// A reader remembers where it is: each step that reads gets the next record. Its place belongs to
// Session::SnapshotState. Files are read ahead on threads of their own, so a read seldom waits.
//
// Errors of a read: those of the queue (OUT_OF_RANGE when it is closed and empty), those of the
// file (NOT_FOUND; the next read goes on with the next file), DATA_LOSS for a damaged record, which
// every read gets until Reset.
//
// Source of the semantics: section 4.5 of TensorFlow's white paper, and tf.WholeFileReader,
// tf.TextLineReader, tf.FixedLengthRecordReader, tf.TFRecordReader and tf.IdentityReader. Errors
// while the graph is built are the scope's.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_READERS_H_
#define TROUPE_READERS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "troupe/export.h"
#include "troupe/queues.h"

namespace TROUPE_EXPORT troupe {

struct ReaderOptions {
  std::string container = {};    // else the scope's
  std::string shared_name = {};  // else the node's name
};

class Reader {
 public:
  Reader() = default;
  // Key: the name of the file; value: all of it.
  static Reader WholeFiles(const ScopeAt& at, const ReaderOptions& options = {});
  // Key: "file:number", counted from 1. The first `skip_header_lines` of each file are passed over.
  static Reader TextLines(const ScopeAt& at, int64_t skip_header_lines = 0, const ReaderOptions& options = {});
  // Key: "file:number", counted from 0. `encoding`: "", "ZLIB" or "GZIP".
  struct Fixed {
    int64_t record_bytes = 1, header_bytes = 0, footer_bytes = 0;
    int64_t hop_bytes = 0;  // from one record to the next; 0: record_bytes
    std::string encoding = {};
  };
  static Reader FixedLength(const ScopeAt& at, const Fixed& layout, const ReaderOptions& options = {});
  // Key: "file:offset". `compression`: "", "ZLIB" or "GZIP".
  static Reader Records(const ScopeAt& at, const std::string& compression = {}, const ReaderOptions& options = {});
  // Key and value: those of an LMDB file, or of data.mdb in a folder, in the order of the keys.
  static Reader Lmdb(const ScopeAt& at, const ReaderOptions& options = {});
  // Key and value: the name itself.
  static Reader Identity(const ScopeAt& at, const ReaderOptions& options = {});
  // The reader of a handle, a resource or a reference: of an imported graph, say.
  static Reader Of(const Output& handle);

  // Key and value of the next record: two string scalars.
  std::pair<Output, Output> Read(const ScopeAt& at, const Queue& names) const;
  // Of up to `n` records (an int64 scalar) of one file: two string vectors.
  std::pair<Output, Output> ReadUpTo(const ScopeAt& at, const Queue& names, const Input& n) const;
  // int64 scalars: records that were read, and files that were read to their end, since Reset.
  Output NumRecordsProduced(const ScopeAt& at) const;
  Output NumWorkUnitsCompleted(const ScopeAt& at) const;
  // The place of the reader as a string scalar, and back.
  Output SerializeState(const ScopeAt& at) const;
  Operation RestoreState(const ScopeAt& at, const Input& state) const;
  // Forgets the file that it reads and the counts; the next read takes the next name of the queue.
  Operation Reset(const ScopeAt& at) const;

  const Output& handle() const { return handle_; }

 private:
  explicit Reader(Output handle) : handle_(std::move(handle)) {}
  std::string Op(std::string_view op) const;

  Output handle_;
};

}  // namespace troupe

#endif  // TROUPE_READERS_H_
