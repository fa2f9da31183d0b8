#include "graph/files/memory_files.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <shared_mutex>

#include "graph/files/file_error.h"

namespace troupe::files {
namespace {

// "mem://a//b/./c/" -> "a/b/c"; the root is "".
std::string Key(const std::string& path) {
  const size_t scheme = path.find("://");
  std::string key;
  for (const std::string& part : StrSplit(scheme == std::string::npos ? path : path.substr(scheme + 3), '/')) {
    if (part.empty() || part == ".") continue;
    if (!key.empty()) key += '/';
    key += part;
  }
  return key;
}

std::string ParentOf(const std::string& key) {
  const size_t slash = key.rfind('/');
  return slash == std::string::npos ? "" : key.substr(0, slash);
}

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

struct MemoryFiles::File {
  std::shared_mutex mu;  // readers of a file need not wait for those of others
  std::string bytes;
  size_t safe = 0;  // how many of them a crash leaves
  int64_t modified = Now();
};

class MemoryFiles::Readable : public ReadableFile {
 public:
  explicit Readable(std::shared_ptr<File> file) : file_(std::move(file)) {}
  absl::StatusOr<size_t> ReadAt(uint64_t offset, size_t n, char* to) const override {
    std::shared_lock<std::shared_mutex> lock(file_->mu);
    if (offset >= file_->bytes.size()) return size_t{0};
    n = std::min<uint64_t>(n, file_->bytes.size() - offset);
    std::memcpy(to, file_->bytes.data() + offset, n);
    return n;
  }
  absl::StatusOr<uint64_t> Size() const override {
    std::shared_lock<std::shared_mutex> lock(file_->mu);
    return file_->bytes.size();
  }

 private:
  const std::shared_ptr<File> file_;
};

class MemoryFiles::Writable : public WritableFile {
 public:
  Writable(std::shared_ptr<MemoryFiles> system, std::string path, std::shared_ptr<File> file)
      : system_(std::move(system)), path_(std::move(path)), file_(std::move(file)), life_(system_->life_) {}
  absl::Status Append(std::string_view bytes) override {
    std::lock_guard<std::mutex> all(system_->mu_);
    TROUPE_RETURN_IF_ERROR(Usable("writing"));
    size_t n = bytes.size();
    const absl::Status asked = system_->Ask(path_, &n);
    std::lock_guard<std::shared_mutex> lock(file_->mu);
    try {
      if (asked.ok() || n < bytes.size()) file_->bytes.append(bytes.substr(0, n));
    } catch (const std::bad_alloc&) {
      return FileError(ENOSPC, path_, "writing");
    }
    file_->modified = Now();
    return asked;
  }
  absl::Status Sync() override {
    std::lock_guard<std::mutex> all(system_->mu_);
    TROUPE_RETURN_IF_ERROR(Usable("syncing"));
    TROUPE_RETURN_IF_ERROR(system_->Ask(path_));
    std::lock_guard<std::shared_mutex> lock(file_->mu);
    file_->safe = file_->bytes.size();
    return absl::OkStatus();
  }
  absl::Status Close() override {
    closed_ = true;
    return absl::OkStatus();
  }

 private:
  absl::Status Usable(const char* doing) const {
    if (closed_) return FailedPrecondition(path_, ": ", doing, ": it has been closed");
    if (life_ != system_->life_) return FileError(EIO, path_, doing);
    return absl::OkStatus();
  }
  const std::shared_ptr<MemoryFiles> system_;
  const std::string path_;
  const std::shared_ptr<File> file_;
  const uint64_t life_;
  bool closed_ = false;
};

bool MemoryFiles::IsDirectory(const std::string& key) const {
  if (key.empty()) return true;
  const auto it = now_.find(key);
  return it != now_.end() && it->second == nullptr;
}

absl::Status MemoryFiles::NeedParent(const std::string& key, const std::string& path, const char* doing) const {
  const std::string parent = ParentOf(key);
  if (IsDirectory(parent)) return absl::OkStatus();
  return FileError(now_.contains(parent) ? ENOTDIR : ENOENT, path, doing);
}

absl::StatusOr<std::unique_ptr<ReadableFile>> MemoryFiles::OpenToRead(const std::string& path) {
  std::lock_guard<std::mutex> lock(mu_);
  const std::string key = Key(path);
  if (IsDirectory(key)) return FileError(EISDIR, path, "opening to read");
  const auto it = now_.find(key);
  if (it == now_.end()) return FileError(ENOENT, path, "opening to read");
  return std::make_unique<Readable>(it->second);
}

absl::StatusOr<std::unique_ptr<WritableFile>> MemoryFiles::OpenToWrite(const std::string& path, WriteMode mode) {
  std::lock_guard<std::mutex> lock(mu_);
  TROUPE_RETURN_IF_ERROR(Ask(path));
  const std::string key = Key(path);
  if (IsDirectory(key)) return FileError(EISDIR, path, "opening to write");
  TROUPE_RETURN_IF_ERROR(NeedParent(key, path, "opening to write"));
  const auto it = now_.find(key);
  if (mode == WriteMode::kCreate && it != now_.end()) return FileError(EEXIST, path, "opening to write");
  std::shared_ptr<File> file = it != now_.end() && mode == WriteMode::kAppend ? it->second : std::make_shared<File>();
  now_[key] = file;
  return std::make_unique<Writable>(shared_from_this(), path, std::move(file));
}

absl::StatusOr<FileStat> MemoryFiles::Stat(const std::string& path) {
  std::lock_guard<std::mutex> lock(mu_);
  const std::string key = Key(path);
  FileStat stat;
  stat.is_directory = IsDirectory(key);
  if (stat.is_directory) return stat;
  const auto it = now_.find(key);
  if (it == now_.end()) return FileError(ENOENT, path, "looking for it");
  std::shared_lock<std::shared_mutex> file(it->second->mu);
  stat.size = it->second->bytes.size();
  stat.modified_ns = it->second->modified;
  return stat;
}

absl::StatusOr<std::vector<std::string>> MemoryFiles::List(const std::string& path) {
  std::lock_guard<std::mutex> lock(mu_);
  const std::string key = Key(path);
  if (!IsDirectory(key)) return FileError(now_.contains(key) ? ENOTDIR : ENOENT, path, "listing");
  const std::string begin = key.empty() ? "" : key + "/";
  std::vector<std::string> names;
  for (auto it = now_.lower_bound(begin); it != now_.end() && it->first.starts_with(begin); ++it) {
    if (it->first.find('/', begin.size()) == std::string::npos) names.push_back(it->first.substr(begin.size()));
  }
  return names;
}

absl::Status MemoryFiles::MakeDirectory(const std::string& path) {
  std::lock_guard<std::mutex> lock(mu_);
  TROUPE_RETURN_IF_ERROR(Ask(path));
  const std::string key = Key(path);
  for (size_t at = 0; at != std::string::npos && !key.empty();) {
    at = key.find('/', at + 1);
    const auto [it, made] = now_.try_emplace(key.substr(0, at));
    if (!made && it->second != nullptr) return FileError(ENOTDIR, path, "making the folder");
  }
  return absl::OkStatus();
}

absl::Status MemoryFiles::Rename(const std::string& from, const std::string& to) {
  std::lock_guard<std::mutex> lock(mu_);
  TROUPE_RETURN_IF_ERROR(Ask(from));
  const std::string doing = StrCat("renaming to ", to), a = Key(from), b = Key(to);
  const auto it = now_.find(a);
  if (it == now_.end()) return FileError(ENOENT, from, doing);
  TROUPE_RETURN_IF_ERROR(NeedParent(b, from, doing.c_str()));
  if (it->second == nullptr) {
    // Of a folder, all that is in it.
    if (b == a || b.starts_with(a + "/")) return FileError(EINVAL, from, doing);
    if (now_.contains(b) || b.empty()) return FileError(ENOTEMPTY, from, doing);
    Names moved;
    for (auto in = now_.lower_bound(a); in != now_.end() && in->first.starts_with(a);) {
      if (in->first.size() > a.size() && in->first[a.size()] != '/') {
        ++in;
        continue;
      }
      moved[b + in->first.substr(a.size())] = in->second;
      in = now_.erase(in);
    }
    now_.merge(moved);
    return absl::OkStatus();
  }
  if (IsDirectory(b)) return FileError(EISDIR, from, doing);
  if (a == b) return absl::OkStatus();
  const std::shared_ptr<File> file = it->second;
  now_.erase(it);
  now_[b] = file;
  return absl::OkStatus();
}

absl::Status MemoryFiles::Delete(const std::string& path) {
  std::lock_guard<std::mutex> lock(mu_);
  TROUPE_RETURN_IF_ERROR(Ask(path));
  const std::string key = Key(path);
  const auto it = now_.find(key);
  if (it == now_.end()) return FileError(ENOENT, path, "deleting");
  const auto inside = now_.lower_bound(key + "/");
  if (it->second == nullptr && inside != now_.end() && inside->first.starts_with(key + "/")) {
    return FileError(ENOTEMPTY, path, "deleting");
  }
  now_.erase(it);
  return absl::OkStatus();
}

absl::Status MemoryFiles::SyncDirectory(const std::string& path) {
  std::lock_guard<std::mutex> lock(mu_);
  TROUPE_RETURN_IF_ERROR(Ask(path));
  const std::string key = Key(path);
  if (!IsDirectory(key)) return FileError(now_.contains(key) ? ENOTDIR : ENOENT, path, "syncing");
  // The folder's own name is safe with it: whoever makes a folder and syncs it, expects that.
  for (std::string up = key; !up.empty(); up = ParentOf(up)) safe_[up] = nullptr;
  const std::string begin = key.empty() ? "" : key + "/";
  const auto here = [&](const std::string& name) {
    return name.starts_with(begin) && name.find('/', begin.size()) == std::string::npos;
  };
  std::erase_if(safe_, [&](const auto& entry) { return here(entry.first) && !now_.contains(entry.first); });
  for (auto it = now_.lower_bound(begin); it != now_.end() && it->first.starts_with(begin); ++it) {
    if (here(it->first)) safe_[it->first] = it->second;
  }
  return absl::OkStatus();
}

void MemoryFiles::Crash(bool keep_names) {
  std::lock_guard<std::mutex> lock(mu_);
  ++life_;
  if (keep_names) {
    safe_ = now_;
  } else {
    // A file whose folder is gone cannot be reached.
    std::erase_if(safe_, [&](const auto& entry) {
      const std::string parent = ParentOf(entry.first);
      return !parent.empty() && !safe_.contains(parent);
    });
    now_ = safe_;
  }
  for (const auto& [name, file] : now_) {
    if (file == nullptr) continue;
    std::lock_guard<std::shared_mutex> one(file->mu);
    file->bytes.resize(file->safe);
  }
}

}  // namespace troupe::files
