#include "tools/troupe/npy.h"

#include "graph/core/read_file.h"
#include "graph/files/npy.h"
#include "tools/troupe/write_file.h"

namespace troupe::tool {

absl::StatusOr<Tensor> ReadNpy(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  absl::StatusOr<Tensor> t = files::ParseNpy(bytes);
  if (!t.ok()) return Annotate(t.status(), path);
  return t;
}

absl::Status WriteNpy(const Tensor& tensor, const std::string& path) {
  const absl::StatusOr<files::NpyFile> file = files::MakeNpy(tensor);
  if (!file.ok()) return Annotate(file.status(), path);
  return WriteFile(path, {file->header, file->data()});
}

}  // namespace troupe::tool
