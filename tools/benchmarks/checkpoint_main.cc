// Times checkpoints of large variables, beside dd on the same disk.
//
//   checkpoint save FOLDER       a sample is the GB a second of a save, until it is on the disk
//   checkpoint dd_write FOLDER   the same of dd conv=fdatasync
//   checkpoint restore FOLDER    a sample is the GB a second of a restore; the file is not in the page cache
//   checkpoint dd_read FOLDER    the same of dd
//   checkpoint blocked_one FOLDER   steps on one compute thread, each of which adds to one variable
//                                   of all in turn, while a save runs: what the longest step takes
//                                   beyond an ordinary one, by the duration of the save
//   checkpoint blocked_all FOLDER   the same of steps that add to every variable
//
//   [--mib N]                    so many MiB of variables, 64 in each
//   [--unexpected]               no save is expected (Saver::ExpectSave), so that what steps copy
//                                goes to memory that is fresh
//
// The two that read make a checkpoint first. What they put into FOLDER they delete.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdlib>

#include "tools/benchmarks/serve.h"
#include "troupe/checkpoint.h"
#include "troupe/files.h"
#include "troupe/train/saver.h"
#include "troupe/troupe.h"

namespace {

using namespace troupe;         // NOLINT
using namespace troupe::bench;  // NOLINT

constexpr int64_t kMib = 1 << 20, kEach = 64;

struct Flags {
  std::string mode, folder;
  int64_t mib = 1024;
  bool unexpected = false;
};

void Need(const absl::Status& s) {
  if (s.ok()) return;
  std::fprintf(stderr, "checkpoint: %s\n", s.ToString().c_str());
  std::exit(1);
}
template <class T>
T Need(absl::StatusOr<T> s) {
  Need(s.status());
  return *std::move(s);
}

// Takes the file out of the page cache. Without effect on file systems that are memory themselves.
void Forget(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  if (fd < 0) Need(absl::NotFoundError(path + " cannot be opened"));
  ::fsync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
}

void Dd(const std::string& arguments) {
  const std::string command = "dd bs=1M " + arguments + " 2>/dev/null";
  if (std::system(command.c_str()) != 0) Need(absl::InternalError("'" + command + "' has failed"));
}

// Variables of `mib` MiB in all, in a session that has given them values.
struct Model {
  Scope root = Scope::NewRootScope();
  std::vector<Operation> adds;  // one for each variable: changes all of it
  std::unique_ptr<train::Saver> saver;
  std::unique_ptr<Session> session;

  Model(int64_t mib, int threads) {
    std::vector<Operation> starts;
    const Output more = Const(root, 0.5f, TensorShape({kEach * kMib / 4}));
    for (int64_t i = 0; i < std::max<int64_t>(mib / kEach, 1); ++i) {
      const Output noise = ops::RandomUniform(root, Const(root, {static_cast<int32_t>(kEach * kMib / 4)}),
                                              DType::kFloat, {.seed = i + 1});
      const Variable v(root.WithOpName(StrCat("w", i)), noise);
      starts.push_back(v.initializer());
      adds.emplace_back(v.AssignAdd(root, more));
    }
    saver = std::make_unique<train::Saver>(root, train::SaverOptions{.max_to_keep = 1});
    Need(root.status());
    SessionOptions options;
    options.runtime_options.threads = threads;
    session = Need(Session::Create(options));
    Need(session->Extend(*root.graph()));
    Need(session->Run({}, {}, starts, nullptr));
  }
};

// How long steps that change variables are held up by a save of all.
class Blocked {
 public:
  // `all`: each step changes every variable, else one of them in turn.
  Blocked(Model* model, std::string prefix, bool all, bool expects)
      : model_(model), prefix_(std::move(prefix)), expects_(expects) {
    const auto prepare = [&](const std::vector<Operation>& changes) {
      steps_.push_back(Need(model->session->Prepare({}, {}, changes)));
    };
    if (all) {
      prepare(model->adds);
    } else {
      for (const Operation& add : model->adds) prepare({add});
    }
    Sample();  // a Saver learns from its first save
  }
  // What the longest step takes beyond an ordinary one, divided by the time of the save.
  double Sample() {
    std::vector<double> alone;
    for (size_t i = 0; i < std::max<size_t>(5, steps_.size()); ++i) {
      const Clock::time_point start = Clock::now();
      Step();
      alone.push_back(SecondsSince(start));
    }
    std::nth_element(alone.begin(), alone.begin() + static_cast<std::ptrdiff_t>(alone.size() / 2), alone.end());
    // As CheckpointSaverHook does, some steps ahead.
    if (expects_) model_->saver->ExpectSave();
    for (size_t i = 0; i < alone.size(); ++i) Step();
    std::atomic<bool> done = false;
    double duration = 0, longest = 0;
    const Clock::time_point begin = Clock::now();
    // From the end of one step to that of the next: the training thread takes the values, too.
    Clock::time_point last = begin;
    model_->saver->SaveAsync(*model_->session, prefix_, {.write_state = false}, [&](absl::StatusOr<std::string> s) {
      Need(s.status());
      duration = SecondsSince(begin);
      done = true;
    });
    while (!done) {
      Step();
      longest = std::max(longest, SecondsSince(last));
      last = Clock::now();
    }
    model_->saver->WaitForSaves();
    return (longest - alone[alone.size() / 2]) / duration;
  }

 private:
  void Step() { Need(steps_[next_++ % steps_.size()].Run({}, nullptr)); }
  Model* const model_;
  const std::string prefix_;
  const bool expects_;
  std::vector<Callable> steps_;
  size_t next_ = 0;
};

int Main(const Flags& flags) {
  const int64_t bytes = std::max<int64_t>(flags.mib / kEach, 1) * kEach * kMib;
  const auto rate = [&](const std::function<void()>& run) {
    const Clock::time_point start = Clock::now();
    run();
    return 1e-9 * static_cast<double>(bytes) / SecondsSince(start);
  };
  const std::string prefix = files::Join(flags.folder, flags.mode), data = prefix + ".data-00000-of-00001";
  const std::string plain = files::Join(flags.folder, flags.mode + ".plain");
  int code = 0;
  if (flags.mode == "dd_write") {
    code = Serve("{}", [&] {
      return rate([&] { Dd(StrCat("if=/dev/zero of='", plain, "' count=", bytes / kMib, " conv=fdatasync")); });
    });
    files::Delete(plain).IgnoreError();
    return code;
  }
  const bool blocked = flags.mode.starts_with("blocked");
  Model model(flags.mib, blocked ? 1 : 0);
  const train::SaveOptions alone = {.write_state = false};
  if (blocked) {
    Blocked training(&model, prefix, flags.mode == "blocked_all", !flags.unexpected);
    code = Serve("{}", [&] { return training.Sample(); });
  } else if (flags.mode == "save") {
    code = Serve("{}", [&] { return rate([&] { Need(model.saver->Save(*model.session, prefix, alone).status()); }); });
  } else {
    Need(model.saver->Save(*model.session, prefix, alone).status());
    const bool ours = flags.mode == "restore";
    code = Serve("{}", [&] {
      Forget(data);
      return rate([&] {
        if (!ours) return Dd(StrCat("if='", data, "' of=/dev/null"));
        Need(model.saver->Restore(*model.session, prefix));
      });
    });
  }
  DeleteCheckpoint(prefix).IgnoreError();
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Times checkpoints of large variables, beside dd");
  app.add_option("mode", flags.mode)
      ->required()
      ->check(CLI::IsMember({"save", "dd_write", "restore", "dd_read", "blocked_one", "blocked_all"}));
  app.add_option("folder", flags.folder)->required();
  app.add_option("--mib", flags.mib);
  app.add_flag("--unexpected", flags.unexpected);
  CLI11_PARSE(app, argc, argv);
  return Main(flags);
}
