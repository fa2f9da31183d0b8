#include "tools/troupe/cluster_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "graph/core/read_file.h"
#include "troupe/tls.h"

namespace troupe::tool {
namespace {

namespace fs = std::filesystem;

// A lock of the file as it is open here, which goes with it, and of the whole file.
struct flock WholeFile() {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return whole;
}

// A regular file with a number, or with nothing: what Take writes, and no file of the user's.
bool IsOurs(int lock) {
  struct stat s {};
  if (::fstat(lock, &s) != 0 || !S_ISREG(s.st_mode)) return false;
  char text[32] = "";
  const ssize_t n = ::pread(lock, text, sizeof(text), 0);
  return n >= 0 && n < static_cast<ssize_t>(sizeof(text)) &&
         std::all_of(text, text + n, [](char c) { return (c >= '0' && c <= '9') || c == '\n'; });
}

int64_t ProcessIn(int lock) {
  char text[32] = "";
  const ssize_t n = ::pread(lock, text, sizeof(text) - 1, 0);
  return n <= 0 ? 0 : std::strtoll(text, nullptr, 10);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClusterFolder>> ClusterFolder::Take(const std::string& path) {
  std::error_code error;
  const std::string lock_path = path + "/lock";
  if (fs::exists(path, error) && !fs::exists(lock_path, error)) {
    if (!fs::is_directory(path, error)) return FailedPrecondition(path, " is no folder");
    if (!fs::is_empty(path, error))
      return FailedPrecondition("the folder ", path,
                                " has other things in it than a cluster; name another one (--dir)");
  }
  fs::create_directories(path + "/logs", error);
  if (error) return FailedPrecondition("the folder ", path, " cannot be made: ", error.message());
  const int lock = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  if (lock < 0) return FailedPrecondition(lock_path, ": ", std::strerror(errno));
  auto folder = std::make_unique<ClusterFolder>(path, lock);
  if (!IsOurs(lock)) return FailedPrecondition(lock_path, " is not a cluster's: name another folder (--dir)");
  struct flock whole = WholeFile();
  if (::fcntl(lock, F_OFD_SETLK, &whole) != 0) {
    if (errno != EAGAIN && errno != EACCES) return FailedPrecondition(lock_path, ": ", std::strerror(errno));
    return AlreadyExists("process ", ProcessIn(lock), " runs a cluster in ", path,
                         "; end it by troupe cluster down, or name another folder (--dir)");
  }
  const std::string pid = StrCat(static_cast<int64_t>(::getpid()), "\n");
  if (::ftruncate(lock, 0) != 0 || ::pwrite(lock, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size()))
    return FailedPrecondition(lock_path, " cannot be written: ", std::strerror(errno));
  // An earlier cluster's state is not this one's.
  fs::remove(path + "/state.json", error);
  return folder;
}

ClusterFolder::~ClusterFolder() { ::close(lock_); }

absl::Status ClusterFolder::Write(const std::string& name, std::string_view text) {
  const std::string path = StrCat(path_, "/", name), fresh = path + ".new";
  std::FILE* const file = std::fopen(fresh.c_str(), "we");
  if (file == nullptr) return Internal(fresh, ": ", std::strerror(errno));
  bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  written = std::fclose(file) == 0 && written;
  if (!written || std::rename(fresh.c_str(), path.c_str()) != 0)
    return Internal(path, " cannot be written: ", std::strerror(errno));
  return absl::OkStatus();
}

absl::Status ClusterFolder::MakeCertificate() {
  std::error_code error;
  for (const char* const name : {"ca.crt", "node.crt", "node.key"}) fs::remove(StrCat(path_, "/tls/", name), error);
  return MakeClusterCertificate(path_ + "/tls");
}

absl::StatusOr<ClusterSeen> LookAtCluster(const std::string& path) {
  const int lock = ::open((path + "/lock").c_str(), O_RDONLY | O_CLOEXEC);
  if (lock < 0) return NotFound("there is no cluster in ", path, " (--dir names another folder)");
  ClusterSeen seen;
  // Only asked whether it could be had, so that nobody who looks is in another's way.
  struct flock whole = WholeFile();
  if (::fcntl(lock, F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK) seen.pid = ProcessIn(lock);
  ::close(lock);
  if (auto state = ReadFile(path + "/state.json"); state.ok()) seen.state = *std::move(state);
  if (seen.state.empty() && seen.pid == 0) return NotFound("there is no state of a cluster in ", path);
  return seen;
}

}  // namespace troupe::tool
