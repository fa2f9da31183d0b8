// Topologies: which parts a program of many processes has (servers of a cluster, programs, models
// that are served, actors), how each is started, restarted and wired to the others, as one text.
// A Play starts them, each in a process of its own, knows who is alive, and stops them in order.
//
//   const auto topology = play::Topology::Read("fall.play");
//   ...
//   const auto play = play::Play::Start(*topology, {});
//   absl::Status s = (*play)->AwaitReady(std::chrono::seconds(10));
//
// A line that is not indented begins a part: its kind and its name. The indented lines below it are
// its settings, "key: value ...".
//
// Thread rule: a Topology is a plain value. All methods of Play are thread safe; Start, AwaitReady,
// Wait, Stop, status and the destructor block: not in an actor's handler.
#ifndef TROUPE_PLAY_H_
#define TROUPE_PLAY_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/export.h"
#include "troupe/process_supervisor.h"
#include "troupe/status.h"

namespace troupe {
namespace TROUPE_EXPORT play {

// A place in the text, both from 1; columns count bytes.
struct Place {
  int line = 0, column = 0;
};
// A word of a value, without its quotes.
struct Word {
  std::string text;
  Place at;
};
struct Setting {
  std::string key;
  std::vector<Word> words;
  Place at;
};

enum class Kind : uint8_t {
  kTopology,  // settings of the whole
  kHost,      // another machine, and how programs are started there
  kServer,    // tasks of a cluster, each a Server
  kProgram,   // a program of the user's
  kBatcher,   // a model that is served to actors, in batches
  kActor,     // an actor that a registered role makes
  kForward,   // the name, in a server's runtime, of an actor of another process
};
std::string_view ToString(Kind kind);  // "server"

struct Part {
  Kind kind = Kind::kProgram;
  std::string name;
  Place at;
  std::vector<Setting> settings;  // each key once
  // Null when it is not given.
  const Setting* Find(std::string_view key) const;
};

class Topology {
 public:
  static constexpr size_t kMostBytes = 64 << 10;
  static constexpr int kMostProcesses = 1000;

  // INVALID_ARGUMENT "FILE:LINE:COLUMN: why" for the first thing that is wrong, in form or in
  // meaning. Any bytes are allowed to be wrong.
  static absl::StatusOr<Topology> Parse(std::string_view text, std::string_view file = "topology");
  // The error of the file, or of Parse.
  static absl::StatusOr<Topology> Read(const std::string& path);
  // Of a process that a Play has started, with the addresses that the Play has found for its parts
  // (`at`). NOT_FOUND in other processes.
  static absl::StatusOr<Topology> OfThisProcess();

  // In the order of the text.
  const std::vector<Part>& parts() const { return parts_; }
  // Null when there is none. Hosts have names of their own, and are not found.
  const Part* Find(std::string_view name) const;
  const std::string& file() const { return file_; }
  // As Parse reads it.
  std::string ToText() const;
  // INVALID_ARGUMENT with this place.
  absl::Status Wrong(Place at, std::string_view why) const;

 private:
  friend struct Addressing;  // gives parts their addresses
  std::string file_;
  std::vector<Part> parts_;
};

struct PlayOptions {
  // How a process becomes a part of the topology: the words of a command, in which {part} stands
  // for the part's name. It calls RunPart. Empty: this program, with RunPart's argument.
  std::vector<std::string> command;
  // Logs, as of ProcessSupervisorOptions; "": what processes write is lost.
  std::string logs;
  // What `{dir}` in commands stands for; "": the working folder.
  std::string dir;
  // Told each line that a process writes, on a thread that it must neither block nor call back on.
  std::function<void(const std::string& name, uint64_t incarnation, std::string_view line)> on_line;
};

struct PartStatus {
  // Of the part's process: its name is that of the part, and its number for those with tasks
  // ("ps:0").
  ProcessStatus process;
  Kind kind = Kind::kProgram;
  std::string address;  // "": it has none
  // A program: it has written the line that its `ready` names; without one it has started, as a
  // service, or else has ended well. Others: they do what they are for.
  bool ready = false;
  bool was_ready = false;  // its last incarnation has said that it is, though it may be over now
};

struct PlayStatus {
  std::vector<PartStatus> parts;  // those that have processes, in the order of the topology
  bool stopping = false, over = false;
  absl::Status result;  // as ProcessesStatus has it
};

class Play {
 public:
  // Starts each part as soon as those are ready after which it comes. INVALID_ARGUMENT names the
  // place of a setting that cannot be had here: a host without a launcher, a program that is not
  // there. UNAVAILABLE for a port that is taken; what ProcessSupervisor::Start says.
  static absl::StatusOr<std::unique_ptr<Play>> Start(const Topology& topology, const PlayOptions& options);
  // Kills what still runs.
  ~Play();

  absl::StatusOr<PlayStatus> status() const;
  // Until all parts are ready but programs that are no services. DEADLINE_EXCEEDED names the
  // others; when all is over before: why, or FAILED_PRECONDITION.
  absl::Status AwaitReady(std::chrono::milliseconds at_most) const;
  // Whether all is over, within the time.
  absl::StatusOr<bool> Wait(std::chrono::milliseconds at_most) const;
  // Ends programs, then services and all other parts; each of the two has `at_most`. As
  // ProcessSupervisor::Stop.
  absl::Status Stop(std::chrono::milliseconds at_most);
  // As Stop, without waiting; without a time in that of the topology (`stop_within`).
  void BeginStop(std::chrono::milliseconds at_most);
  void BeginStop();
  absl::Status Signal(const std::string& name, int signal);
  // The topology with all addresses; places are those of the text that it was read from.
  const Topology& topology() const;

  struct TROUPE_HIDDEN Impl;
  explicit Play(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

// What Play would do, a line for each process: "ps:0 at 127.0.0.1:2222 after prepare: COMMAND". The
// errors of Play::Start that need no start.
absl::StatusOr<std::string> Describe(const Topology& topology, const PlayOptions& options);

// To be called first in `main` by a program that starts a Play without PlayOptions.command. When
// the process was started to be a part (its only argument is "--troupe_part=NAME"), it is that part
// until it is told to end; the value is its exit status. nullopt: it was not.
std::optional<int> RunPart(int argc, char** argv);
// The same for any command.
int RunPart(const std::string& name);

}  // namespace play
}  // namespace troupe

#endif  // TROUPE_PLAY_H_
