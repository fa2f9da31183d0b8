// A folder of the disk that goes with the test.
#ifndef TROUPE_TESTS_COMMON_FOLDER_H_
#define TROUPE_TESTS_COMMON_FOLDER_H_

#include <cstdlib>
#include <filesystem>
#include <string>

#include <unistd.h>

namespace troupe::testing {

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/troupe_test_XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The current folder, until the end of the test.
class InFolder {
 public:
  InFolder() : before_(std::filesystem::current_path()) { std::filesystem::current_path(folder_.path()); }
  ~InFolder() { std::filesystem::current_path(before_); }
  const std::string& path() const { return folder_.path(); }

 private:
  const Folder folder_;
  const std::filesystem::path before_;
};

}  // namespace troupe::testing

#endif  // TROUPE_TESTS_COMMON_FOLDER_H_
