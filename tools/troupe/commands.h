// The subcommands of the program `troupe`. main.cc reads the command line into these structs; each command has a file of its own.
#ifndef TROUPE_TOOLS_TROUPE_COMMANDS_H_
#define TROUPE_TOOLS_TROUPE_COMMANDS_H_

#include <string>
#include <vector>

#include "troupe/graph/core/status.h"

namespace troupe::tool {

// How the program ends.
inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;      // the reason stands on stderr
inline constexpr int kUsage = 2;       // the command line makes no sense
inline constexpr int kUnknownOps = 3;  // the graph has ops that do not exist here; all of them are listed

struct RunFlags {
  std::string graph;
  std::vector<std::string> feeds;    // NAME=VALUE or NAME=@FILE.npy
  std::vector<std::string> fetches;  // NAME[:PORT]
  std::vector<std::string> targets;
  std::string out;    // folder for .npy files
  std::string trace;  // file
  int repeat = 0;
  int threads = 0;
  bool json = false;
};
int RunCommand(const RunFlags& flags);

struct OpsFlags {
  std::vector<std::string> names;  // empty: all
  bool names_only = false;
};
int OpsCommand(const OpsFlags& flags);

struct GraphFlags {
  std::string graph;
  std::vector<std::string> passes;  // in order
  std::vector<std::string> feeds, fetches, targets;
  bool dot = false;
};
int GraphCommand(const GraphFlags& flags);

// Prints "troupe: <message>" and returns `code`.
int Complain(int code, const std::string& message);
int Complain(int code, const absl::Status& status);

}  // namespace troupe::tool

#endif  // TROUPE_TOOLS_TROUPE_COMMANDS_H_
