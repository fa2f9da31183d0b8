// The folder of a local cluster: who runs it, its state, and its logs.
//
//   lock          locked by the process that runs the cluster, whose number is in it
//   state.json    the state as that process has written it last
//   cluster.pbtxt the tasks and addresses, as a ClusterDef
//   logs/         of each process
//   tls/          the certificate of a cluster whose connections are encrypted
//
// Thread rule: one thread.
#ifndef TROUPE_TOOLS_TROUPE_CLUSTER_FOLDER_H_
#define TROUPE_TOOLS_TROUPE_CLUSTER_FOLDER_H_

#include <memory>
#include <string>
#include <string_view>

#include "troupe/status.h"

namespace troupe::tool {

// Of the process that runs a cluster there, until it goes.
class ClusterFolder {
 public:
  // Makes the folder, or takes one that an earlier cluster has left. ALREADY_EXISTS names the
  // process that runs a cluster there; FAILED_PRECONDITION when the folder has other things in it.
  static absl::StatusOr<std::unique_ptr<ClusterFolder>> Take(const std::string& path);
  ~ClusterFolder();
  // Who reads it sees the text before or this one.
  absl::Status Write(const std::string& name, std::string_view text);
  // A new certificate, in place of what an earlier cluster had.
  absl::Status MakeCertificate();
  std::string logs() const { return path_ + "/logs"; }

  ClusterFolder(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

 private:
  const std::string path_;
  const int lock_;
};

// For those who ask.
struct ClusterSeen {
  int64_t pid = 0;    // of the process that runs it; 0: there is none
  std::string state;  // state.json
};
// NOT_FOUND when there is no cluster and was none.
absl::StatusOr<ClusterSeen> LookAtCluster(const std::string& path);

}  // namespace troupe::tool

#endif  // TROUPE_TOOLS_TROUPE_CLUSTER_FOLDER_H_
