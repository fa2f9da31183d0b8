#include "kernels/tune/tuning.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <system_error>

#include <unistd.h>

#include "kernels/tune/choice_file.h"
#include "troupe/files.h"
#include "troupe/strings.h"

namespace troupe::tune {

namespace internal {
std::atomic<int> mode{-1};
std::atomic<bool> notes_nodes{false};
}  // namespace internal

namespace {

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The file that TROUPE_TUNE_CACHE names, and when it was written.
class CacheFile {
 public:
  void Open(std::string path) {
    std::lock_guard<std::mutex> lock(mu_);
    path_ = std::move(path);
    process_ = ::getpid();
    (void)ThisMachine();  // asks the library, which may be gone at the end
    is_open_.store(true, std::memory_order_release);
    // The process's exit waits for no kernel: choices that are made later are lost.
    (void)std::atexit([] { Global().Write(true); });
  }
  // A choice was made. Written when no trials are left, or some seconds after the last time.
  void Changed() {
    if (!is_open_.load(std::memory_order_acquire)) return;
    changed_.store(true);
    Write(false);
  }
  static CacheFile& Global() {
    static CacheFile& file = *new CacheFile;
    return file;
  }

 private:
  static constexpr int64_t kPauseNs = 5'000'000'000;

  static bool AllChosen() {
    const TuningMode mode = CurrentTuning();
    for (const Choice* c : Table().All()) {
      if (c->Chosen(mode) < 0) return false;
    }
    return true;
  }

  void Write(bool at_end) {
    // A child's copy of the lock may be held for ever.
    if (::getpid() != process_) return;
    std::unique_lock<std::mutex> lock(mu_, std::defer_lock);
    // Another thread that writes will be followed by one more change, or by the end.
    if (at_end) lock.lock();
    if (!lock.owns_lock() && !lock.try_lock()) return;
    if (failed_ || !changed_.load()) return;
    if (!at_end && !AllChosen() && NowNs() - written_ns_ < kPauseNs) return;
    changed_.store(false);
    const absl::Status s = SaveTuning(path_);
    written_ns_ = NowNs();
    if (s.ok()) return;
    failed_ = true;  // said once
    std::fprintf(stderr, "TROUPE_TUNE_CACHE: choices are not kept: %s\n", std::string(s.message()).c_str());
  }

  std::mutex mu_;
  pid_t process_ = 0;  // set before is_open_
  std::string path_;   // under mu_, as all below
  int64_t written_ns_ = NowNs();
  bool failed_ = false;
  std::atomic<bool> is_open_{false}, changed_{false};
};

// A pipe, a device or a socket of the disk: to open or to read it may take for ever.
bool IsNoFile(std::string_view path) {
  constexpr std::string_view kDisk = "file://";
  if (path.starts_with(kDisk)) path.remove_prefix(kDisk.size());
  if (path.find("://") != std::string_view::npos) return false;
  std::error_code error;
  const std::filesystem::file_status s = std::filesystem::status(path, error);
  return std::filesystem::exists(s) && !std::filesystem::is_regular_file(s) && !std::filesystem::is_directory(s);
}

absl::StatusOr<SavedChoices> ReadChoices(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(files::FileStat stat, files::Stat(path));
  if (IsNoFile(path)) return FailedPrecondition(path, ": it is a pipe or a device, and no file of choices");
  if (stat.size > kMostBytes)
    return InvalidArgument(path, ": it has ", stat.size, " bytes, but a file of choices at most ", kMostBytes);
  TROUPE_ASSIGN_OR_RETURN(std::string text, files::Read(path));
  absl::StatusOr<SavedChoices> choices = FromText(ThisMachine(), text);
  if (!choices.ok()) return Annotate(choices.status(), path);
  return choices;
}

// Where the symbolic links lead that `path` names, also when nothing is there yet: a file that is
// replaced in one step would else take the place of the link.
std::string BehindLinks(const std::string& path) {
  const bool has_scheme = path.find("://") != std::string::npos, of_disk = path.starts_with("file://");
  if (has_scheme && !of_disk) return path;
  std::filesystem::path at = of_disk ? path.substr(7) : path;
  std::error_code error;
  constexpr int kMostLinks = 40;  // as Linux has it
  for (int i = 0; i < kMostLinks && std::filesystem::is_symlink(at, error); ++i) {
    const std::filesystem::path to = std::filesystem::read_symlink(at, error);
    if (error) return path;
    at = at.parent_path() / to;
  }
  return at.string();
}

absl::Status Load(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(SavedChoices saved, ReadChoices(path));
  Table().Learn(std::move(saved));
  return absl::OkStatus();
}

TuningMode ModeOfEnvironment() {
  const char* const wish = std::getenv("TROUPE_TUNE");
  const char* const path = std::getenv("TROUPE_TUNE_CACHE");
  const bool has_path = path != nullptr && *path != '\0';
  TuningMode mode = has_path ? TuningMode::kAll : TuningMode::kOff;
  bool asked = false;
  if (wish != nullptr && *wish != '\0') {
    const std::string_view w = wish;
    asked = true;
    if (w == "off") {
      mode = TuningMode::kOff;
    } else if (w == "fixed") {
      mode = TuningMode::kFixed;
    } else if (w == "same_bits") {
      mode = TuningMode::kSameBits;
    } else if (w == "on") {
      mode = TuningMode::kAll;
    } else {
      asked = false;
      std::fprintf(stderr, "TROUPE_TUNE=%s is none of off, fixed, same_bits and on\n", wish);
    }
  }
  if (!has_path || mode == TuningMode::kOff) return mode;
  const absl::Status s = Load(path);
  if (s.ok() || (s.code() == absl::StatusCode::kNotFound && mode != TuningMode::kFixed)) {
    if (mode != TuningMode::kFixed) CacheFile::Global().Open(path);
    return mode;
  }
  std::fprintf(stderr, "TROUPE_TUNE_CACHE is not used: %s\n", std::string(s.message()).c_str());
  return asked ? mode : TuningMode::kOff;
}

struct Place {
  std::string_view name, op;
};
thread_local Place place;

}  // namespace

ChoiceTable& Table() {
  // For ever: kernels may run while static objects are destroyed.
  static ChoiceTable& table = *new ChoiceTable;
  return table;
}

void AtNode::Enter(std::string_view name, std::string_view op) {
  place = {name, op};
  entered_ = true;
}
void AtNode::Leave() { place = {}; }

void Trial::Begin(Choice* choice) {
  if (internal::notes_nodes.load(std::memory_order_relaxed) && !place.name.empty())
    choice->NoteNode(place.name, place.op);
  way_ = choice->Chosen(mode_);
  if (way_ >= 0) return;
  choice_ = choice;
  way_ = choice->Begin(mode_);
  began_ns_ = NowNs();
}

void Trial::End() {
  const bool chosen = choice_->End(mode_, way_, NowNs() - began_ns_);
  choice_ = nullptr;
  if (chosen) CacheFile::Global().Changed();
}

}  // namespace troupe::tune

namespace troupe {

TuningMode CurrentTuning() {
  const int known = tune::internal::mode.load(std::memory_order_acquire);
  if (known >= 0) [[likely]]
    return static_cast<TuningMode>(known);
  static std::once_flag once;
  std::call_once(once, [] {
    int unset = -1;
    tune::internal::mode.compare_exchange_strong(unset, static_cast<int>(tune::ModeOfEnvironment()));
  });
  return static_cast<TuningMode>(tune::internal::mode.load(std::memory_order_acquire));
}

void SetTuning(TuningMode mode) {
  // Counts are kept by mode.
  if (mode < TuningMode::kOff || mode > TuningMode::kAll) return;
  (void)CurrentTuning();  // what the environment says comes before
  tune::internal::mode.store(static_cast<int>(mode), std::memory_order_release);
}

void NoteTuningNodes(bool note) { tune::internal::notes_nodes.store(note, std::memory_order_relaxed); }

std::vector<TuningChoice> TuningChoices() {
  const TuningMode mode = CurrentTuning();
  std::vector<TuningChoice> choices;
  for (const tune::Choice* c : tune::Table().All()) choices.push_back(c->Describe(mode));
  return choices;
}

absl::Status LoadTuning(const std::string& path) {
  (void)CurrentTuning();  // what the environment says comes before
  return tune::Load(path);
}

absl::Status SaveTuning(const std::string& path) {
  (void)CurrentTuning();  // the file of the environment may be this one
  tune::SavedChoices all;
  if (absl::StatusOr<tune::SavedChoices> there = tune::ReadChoices(path); there.ok()) {
    all = *std::move(there);
  } else if (there.status().code() != absl::StatusCode::kNotFound) {
    return there.status();
  }
  for (const tune::Choice* c : tune::Table().All()) {
    tune::SavedChoice saved;
    if (c->Save(&saved)) all[c->key().Text()] = std::move(saved);
  }
  if (all.size() > tune::kMostSaved)
    return ResourceExhausted(path, ": ", all.size(), " problems are more than the ", tune::kMostSaved, " of a file");
  return files::Write(tune::BehindLinks(path), tune::ToText(tune::ThisMachine(), all));
}

}  // namespace troupe
