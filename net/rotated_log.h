// A log of bounded size: a file, and the older ones before it under the same name with .1, .2 and
// so on behind.
//
// What cannot be written, on a full disk say, is lost, and the reason is logged once. A file that
// is there already is continued. Blocks as the file system does. Thread rule: one thread at a time.
#ifndef TROUPE_NET_ROTATED_LOG_H_
#define TROUPE_NET_ROTATED_LOG_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

class RotatedLog {
 public:
  // `files`: in all, the one that is written included. `path` "": everything is lost.
  RotatedLog(std::string path, int64_t most_bytes, int files);
  ~RotatedLog();
  RotatedLog(const RotatedLog&) = delete;
  RotatedLog& operator=(const RotatedLog&) = delete;

  void Append(std::string_view text);

 private:
  void Open(bool anew);
  void Complain(const char* what);

  const std::string path_;
  const int64_t most_bytes_;
  const int files_;
  int descriptor_ = -1;
  int64_t size_ = 0;
  bool complained_ = false;
};

}  // namespace troupe

#endif  // TROUPE_NET_ROTATED_LOG_H_
