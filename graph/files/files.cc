#include "troupe/files.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <map>
#include <mutex>

#include <unistd.h>

#include "graph/core/guarded.h"
#include "graph/files/guarded_files.h"
#include "graph/files/memory_files.h"
#include "graph/files/posix_files.h"
#include "graph/files/temporary_name.h"

namespace troupe::files {
namespace {

// "s3" of "s3://bucket/x", "" when there is none.
std::string_view SchemeOf(std::string_view path) {
  const size_t end = path.find("://");
  if (end == std::string_view::npos || end == 0 || !std::isalpha(static_cast<unsigned char>(path[0]))) return {};
  for (const char c : path.substr(0, end)) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '+' && c != '-' && c != '.') return {};
  }
  return path.substr(0, end);
}

class Systems {
 public:
  // Never destroyed: files may be used until the process is over.
  static Systems& All() {
    static auto* const all = new Systems();
    return *all;
  }
  absl::Status Register(const std::string& scheme, std::shared_ptr<FileSystem> system) {
    std::lock_guard<std::mutex> lock(mu_);
    if (!by_scheme_.try_emplace(scheme, std::move(system)).second) {
      return AlreadyExists("the scheme '", scheme, "' has a file system");
    }
    return absl::OkStatus();
  }
  absl::StatusOr<FileSystem*> Of(std::string_view path) {
    const std::string_view scheme = SchemeOf(path);
    if (scheme.empty()) return disk_;
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = by_scheme_.find(scheme);
    if (it == by_scheme_.end()) {
      return Unimplemented(path, ": no file system is registered for the scheme '", scheme, "'");
    }
    return it->second.get();
  }

 private:
  Systems() {
    const std::shared_ptr<FileSystem> disk = NewPosixFileSystem();
    disk_ = disk.get();
    by_scheme_["file"] = disk;
    by_scheme_["mem"] = std::make_shared<MemoryFiles>();
  }
  std::mutex mu_;
  FileSystem* disk_;
  std::map<std::string, std::shared_ptr<FileSystem>, std::less<>> by_scheme_;
};

// Whether `name` fits the pattern; both without '/'. `[` begins a set.
bool Fits(std::string_view pattern, std::string_view name) {
  size_t star = std::string_view::npos, star_name = 0, p = 0, n = 0;
  while (n < name.size()) {
    bool fits = false;
    size_t next = p;
    if (p < pattern.size()) {
      const char c = pattern[p];
      next = p + 1;
      if (c == '*') {
        star = p++;
        star_name = n;
        continue;
      }
      const size_t end = c == '[' ? pattern.find(']', p + 2) : std::string_view::npos;
      if (c == '?') {
        fits = true;
      } else if (end != std::string_view::npos) {
        size_t i = p + 1;
        const bool none_of = pattern[i] == '!' || pattern[i] == '^';
        bool in = false;
        for (i += none_of ? 1 : 0; i < end; ++i) {
          if (i + 2 < end && pattern[i + 1] == '-') {
            in = in || (pattern[i] <= name[n] && name[n] <= pattern[i + 2]);
            i += 2;
          } else {
            in = in || pattern[i] == name[n];
          }
        }
        fits = in != none_of;
        next = end + 1;
      } else if (c == '\\' && p + 1 < pattern.size()) {
        fits = pattern[p + 1] == name[n];
        next = p + 2;
      } else {
        fits = c == name[n];
      }
    }
    if (fits) {
      p = next;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++star_name;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool IsPattern(std::string_view text) { return text.find_first_of("*?[\\") != std::string_view::npos; }

// Where the path begins behind "scheme://".
size_t BehindScheme(std::string_view path) {
  const std::string_view scheme = SchemeOf(path);
  return scheme.empty() ? 0 : scheme.size() + 3;
}

}  // namespace

ReadableFile::~ReadableFile() = default;
WritableFile::~WritableFile() = default;
FileSystem::~FileSystem() = default;

absl::Status RegisterFileSystem(const std::string& scheme, std::shared_ptr<FileSystem> system) {
  if (SchemeOf(scheme + "://") != scheme || scheme.empty()) {
    return InvalidArgument("'", CEscape(scheme), "' cannot be the scheme of a file system");
  }
  if (system == nullptr) return InvalidArgument("no file system is given for the scheme '", scheme, "'");
  return Systems::All().Register(scheme, GuardedFileSystem(std::move(system)));
}
absl::StatusOr<FileSystem*> SystemOf(std::string_view path) { return Systems::All().Of(path); }
std::shared_ptr<FileSystem> NewMemoryFileSystem() { return std::make_shared<MemoryFiles>(); }

absl::StatusOr<std::unique_ptr<ReadableFile>> OpenToRead(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(FileSystem* const system, SystemOf(path));
  return system->OpenToRead(path);
}
absl::StatusOr<std::unique_ptr<WritableFile>> OpenToWrite(const std::string& path, WriteMode mode) {
  TROUPE_ASSIGN_OR_RETURN(FileSystem* const system, SystemOf(path));
  return system->OpenToWrite(path, mode);
}
absl::StatusOr<FileStat> Stat(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(FileSystem* const system, SystemOf(path));
  return system->Stat(path);
}
bool Exists(const std::string& path) { return Stat(path).ok(); }
absl::StatusOr<std::vector<std::string>> List(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(FileSystem* const system, SystemOf(path));
  return system->List(path);
}
absl::Status MakeDirectory(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(FileSystem* const system, SystemOf(path));
  return system->MakeDirectory(path);
}
absl::Status Rename(const std::string& from, const std::string& to) {
  TROUPE_ASSIGN_OR_RETURN(FileSystem* const system, SystemOf(from));
  TROUPE_ASSIGN_OR_RETURN(FileSystem* const target, SystemOf(to));
  if (system != target) return InvalidArgument(from, ": renaming to ", to, ": that is another file system");
  return system->Rename(from, to);
}
absl::Status Delete(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(FileSystem* const system, SystemOf(path));
  return system->Delete(path);
}
absl::Status SyncDirectory(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(FileSystem* const system, SystemOf(path));
  return system->SyncDirectory(path);
}

absl::StatusOr<std::string> Read(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, OpenToRead(path));
  TROUPE_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  std::string bytes;
  // The size is where to begin: a device has none, and a file may grow.
  constexpr size_t kPiece = size_t{1} << 16;
  try {
    for (;;) {
      const size_t have = bytes.size(), more = have < size ? static_cast<size_t>(size - have) : kPiece;
      bytes.resize(have + more);
      TROUPE_ASSIGN_OR_RETURN(const size_t got, file->ReadAt(have, more, bytes.data() + have));
      bytes.resize(have + got);
      if (got < more || (have < size && have + got == size)) return bytes;
    }
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(path, ": no memory for its ", size, " bytes");
  } catch (const std::length_error&) {
    return ResourceExhausted(path, ": no memory for its ", size, " bytes");
  }
}

absl::Status Write(const std::string& path, std::string_view bytes) {
  TROUPE_ASSIGN_OR_RETURN(FileSystem* const system, SystemOf(path));
  const std::string temporary = TemporaryName(path);
  // What throws, for want of memory say, leaves no temporary file, either.
  const absl::Status done = Guarded("writing a file", [&]() -> absl::Status {
    TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                            system->OpenToWrite(temporary, WriteMode::kReplace));
    TROUPE_RETURN_IF_ERROR(file->Append(bytes));
    TROUPE_RETURN_IF_ERROR(file->Sync());
    TROUPE_RETURN_IF_ERROR(file->Close());
    return system->Rename(temporary, path);
  });
  if (!done.ok()) {
    (void)Guarded("deleting a file", [&] { return system->Delete(temporary); });
    return done;
  }
  return system->SyncDirectory(DirectoryOf(path));
}

absl::StatusOr<std::vector<std::string>> Match(const std::string& pattern) {
  TROUPE_ASSIGN_OR_RETURN(FileSystem* const system, SystemOf(pattern));
  const size_t begin = BehindScheme(pattern);
  std::vector<std::string> paths = {pattern.substr(0, begin)};
  const std::vector<std::string> parts = StrSplit(pattern.substr(begin), '/');
  for (size_t i = 0; i < parts.size() && !paths.empty(); ++i) {
    const bool last = i + 1 == parts.size();
    std::vector<std::string> next;
    for (const std::string& path : paths) {
      if (!IsPattern(parts[i])) {
        if (!last || system->Stat(path + parts[i]).ok()) next.push_back(path + parts[i] + (last ? "" : "/"));
        continue;
      }
      const absl::StatusOr<std::vector<std::string>> names = system->List(path.empty() ? "." : path);
      if (!names.ok()) {
        // Of a folder that is not there nothing fits; nor of a file that a pattern took for one.
        if (absl::IsNotFound(names.status()) || absl::IsFailedPrecondition(names.status())) continue;
        return names.status();
      }
      for (const std::string& name : *names) {
        // As in a shell, names that begin with a dot must be asked for.
        if ((name[0] == '.' && parts[i][0] != '.') || !Fits(parts[i], name)) continue;
        next.push_back(path + name + (last ? "" : "/"));
      }
    }
    paths = std::move(next);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string DirectoryOf(std::string_view path) {
  const size_t begin = BehindScheme(path), slash = path.rfind('/');
  if (slash == std::string_view::npos || slash < begin) return begin == 0 ? "." : std::string(path.substr(0, begin));
  return std::string(path.substr(0, std::max(slash, begin + (slash == begin ? 1 : 0))));
}
std::string NameOf(std::string_view path) {
  const size_t begin = BehindScheme(path), slash = path.rfind('/');
  return std::string(path.substr(slash == std::string_view::npos || slash < begin ? begin : slash + 1));
}
std::string Join(std::string_view directory, std::string_view name) {
  if (name.empty()) return std::string(directory);
  if (directory.empty() || name[0] == '/' || !SchemeOf(name).empty()) return std::string(name);
  return StrCat(directory, directory.back() == '/' ? "" : "/", name);
}

std::string TemporaryName(std::string_view path) {
  static std::atomic<uint64_t> made{0};
  return StrCat(path, ".tempstate", static_cast<int64_t>(::getpid()), "-",
                made.fetch_add(1, std::memory_order_relaxed));
}

}  // namespace troupe::files
