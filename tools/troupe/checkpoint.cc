// troupe checkpoint: which checkpoints a folder has, what is in one, what differs between two, and
// copies under other names.
#include "troupe/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "tools/troupe/commands.h"
#include "tools/troupe/output.h"
#include "tools/troupe/value_text.h"
#include "troupe/files.h"
#include "troupe/train/saver.h"

namespace troupe::tool {
namespace {

using Entry = CheckpointReader::Entry;

// "run/m-100" as "run/m-" and 100, so that steps stand in the order of their numbers.
std::pair<std::string, uint64_t> Counted(const std::string& path) {
  const size_t digits = path.find_last_not_of("0123456789") + 1;
  uint64_t number = 0;
  std::from_chars(path.data() + digits, path.data() + path.size(), number);
  return {path.substr(0, digits), number};
}

// The checkpoints in a folder, also those that its list does not name; by names and steps.
std::vector<std::string> CheckpointsIn(const std::string& folder, const std::vector<std::string>& files) {
  std::set<std::string> there;
  for (const std::string& name : files) {
    if (name.ends_with(".index")) there.insert(files::Join(folder, name.substr(0, name.size() - 6)));
  }
  // Those of the first format have other files.
  for (const std::string& path : train::AllCheckpoints(folder).value_or(std::vector<std::string>())) {
    const std::string here = files::Join(folder, files::NameOf(path));
    if (CheckpointExists(here)) there.insert(here);
  }
  std::vector<std::string> sorted(there.begin(), there.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const std::string& a, const std::string& b) { return Counted(a) < Counted(b); });
  return sorted;
}

// Why a folder does not stand for a checkpoint, and which ones may be meant.
absl::Status NoNewest(const std::string& folder, const absl::Status& why) {
  const auto names = files::List(folder);
  if (!names.ok()) return why;
  if (files::Exists(files::Join(folder, "saved_model.pb")) &&
      files::Exists(files::Join(folder, "variables/variables.index"))) {
    return NotFound(folder, ": it is a SavedModel; its checkpoint is ", files::Join(folder, "variables/variables"));
  }
  constexpr size_t kShown = 10;
  std::vector<std::string> there = CheckpointsIn(folder, *names);
  if (there.empty()) return NotFound(folder, ": there is no checkpoint in this folder");
  const size_t more = there.size() - std::min(there.size(), kShown);
  there.resize(there.size() - more);
  const bool listed = files::Exists(files::Join(folder, "checkpoint"));
  const std::string reason =
      listed ? std::string(why.message()) : StrCat(folder, ": no file 'checkpoint' says which one is the newest");
  return NotFound(reason, "; name one of those that are there: ", StrJoin(there, ", "),
                  more > 0 ? StrCat(" and ", more, " more") : "");
}

absl::Status ListFolder(const std::string& folder) {
  TROUPE_ASSIGN_OR_RETURN(const std::vector<std::string> names, files::List(folder));
  const std::vector<std::string> there = CheckpointsIn(folder, names);
  const absl::StatusOr<std::string> newest = train::LatestCheckpoint(folder);
  if (there.empty())
    return newest.ok() ? NotFound(*newest, ": it is not in this folder") : NoNewest(folder, newest.status());
  Printer out;
  for (const std::string& path : there) {
    const bool last = newest.ok() && files::NameOf(*newest) == files::NameOf(path);
    StrAppend(&out.text(), path, last ? "  newest" : "", "\n");
    if (!out.Continue()) break;
  }
  StrAppend(&out.text(), there.size(), " checkpoints\n");
  return absl::IsNotFound(newest.status()) ? absl::OkStatus() : newest.status();
}

// A folder stands for its newest checkpoint; the files of one may be named, too, as shells complete
// them.
absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(std::string path) {
  const auto stat = files::Stat(path);
  if (stat.ok() && stat->is_directory) {
    absl::StatusOr<std::string> newest = train::LatestCheckpoint(path);
    if (absl::IsNotFound(newest.status())) return NoNewest(path, newest.status());
    if (!newest.ok()) return newest.status();
    path = *std::move(newest);
  } else if (path.ends_with(".index")) {
    path.resize(path.size() - 6);
  } else if (const size_t data = path.rfind(".data-"); data != std::string::npos) {
    path.resize(data);
  }
  return CheckpointReader::Open(path);
}

std::string Describe(const Entry& e) {
  return StrCat(e.dtype != DType::kInvalid ? Name(e.dtype) : StrCat("type ", e.unknown_type), " ",
                e.shape.DebugString(), e.slices.empty() ? "" : StrCat(" in ", e.slices.size(), " slices"));
}

absl::Status List(const CheckpointReader& reader) {
  Printer out;
  int64_t elements = 0;
  for (const Entry& e : reader.entries()) {
    StrAppend(&out.text(), CEscape(e.name), "  ", Describe(e), "\n");
    elements += e.shape.num_elements();
    if (!out.Continue()) break;
  }
  StrAppend(&out.text(), reader.entries().size(), " tensors, ", elements, " elements, format ", reader.format(), "\n");
  return absl::OkStatus();
}

absl::Status Values(const CheckpointReader& reader, const std::vector<std::string>& names, bool full) {
  for (const std::string& name : names) {
    const Entry* const e = reader.Find(name);
    if (e == nullptr) {
      const std::vector<std::string> like = reader.NamesLike(name);
      return NotFound("there is no tensor '", CEscape(name), "' in the checkpoint",
                      like.empty() ? "" : StrCat("; did you mean ", StrJoin(like, " or ")));
    }
    TROUPE_ASSIGN_OR_RETURN(const Tensor value, reader.Read(name));
    Printer out;
    StrAppend(&out.text(), CEscape(name), "  ", Describe(*e), "\n");
    PrintValue(value, full, &out);
    out.text() += "\n";
  }
  return absl::OkStatus();
}

// The largest difference of two numbers; NaN equals NaN.
double LargestDifference(const Tensor& a, const Tensor& b) {
  return VisitNumeric(a.dtype(), 0.0, [&]<class T>() {
    double largest = 0;
    for (int64_t i = 0; i < a.num_elements(); ++i) {
      const T x = a.data<T>()[i], y = b.data<T>()[i];
      double d;
      if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
        d = std::abs(std::complex<double>(x) - std::complex<double>(y));
      } else {
        d = std::abs(static_cast<double>(x) - static_cast<double>(y));
      }
      if (std::memcmp(&x, &y, sizeof(T)) == 0) d = 0;
      if (!(d <= largest)) largest = d;
    }
    return largest;
  });
}

// True when the two have the same tensors.
absl::StatusOr<bool> Compare(const CheckpointReader& a, const CheckpointReader& b) {
  bool same = true;
  const auto differ = [&](const std::string& line) {
    same = false;
    Print(line + "\n");
  };
  int equal = 0;
  for (const Entry& x : a.entries()) {
    const Entry* const y = b.Find(x.name);
    if (y == nullptr) {
      differ(StrCat("- ", CEscape(x.name), "  ", Describe(x)));
      continue;
    }
    if (x.dtype != y->dtype || x.shape != y->shape) {
      differ(StrCat("! ", CEscape(x.name), "  ", Describe(x), ", ", Describe(*y)));
      continue;
    }
    TROUPE_ASSIGN_OR_RETURN(const Tensor left, a.Read(x.name));
    TROUPE_ASSIGN_OR_RETURN(const Tensor right, b.Read(x.name));
    const bool strings = x.dtype == DType::kString;
    if (strings ? left.flat<std::string>() == right.flat<std::string>()
                : left.bytes() == 0 || std::memcmp(left.raw(), right.raw(), left.bytes()) == 0) {
      ++equal;
    } else {
      differ(StrCat("! ", CEscape(x.name), "  ", Describe(x),
                    strings ? "" : StrCat(", differs by up to ", LargestDifference(left, right))));
    }
  }
  for (const Entry& y : b.entries()) {
    if (a.Find(y.name) == nullptr) differ(StrCat("+ ", CEscape(y.name), "  ", Describe(y)));
  }
  Print(StrCat(equal, " tensors are equal\n"));
  return same;
}

absl::Status Copy(const CheckpointReader& reader, const std::vector<std::string>& renames, const std::string& out) {
  std::map<std::string, std::string> names;
  for (const std::string& r : renames) {
    const size_t equals = r.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == r.size()) {
      return InvalidArgument("--rename ", r, ": it must be OLD=NEW");
    }
    const std::string from = r.substr(0, equals);
    if (reader.Find(from) == nullptr) return NotFound("--rename ", r, ": there is no tensor '", CEscape(from), "'");
    names[from] = r.substr(equals + 1);
  }
  TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointWriter> writer, CheckpointWriter::Create(out));
  for (const Entry& e : reader.entries()) {
    const auto it = names.find(e.name);
    const std::string& name = it != names.end() ? it->second : e.name;
    if (e.slices.empty()) {
      TROUPE_ASSIGN_OR_RETURN(const Tensor value, reader.Read(e.name));
      TROUPE_RETURN_IF_ERROR(writer->Add(name, value));
    }
    for (const TensorSlice& slice : e.slices) {
      TROUPE_ASSIGN_OR_RETURN(const Tensor value, reader.ReadSlice(e.name, slice));
      TROUPE_RETURN_IF_ERROR(writer->AddSlice(name, e.shape, slice, value));
    }
  }
  return writer->Finish();
}

}  // namespace

int CheckpointCommand(const CheckpointFlags& flags) {
  if (flags.renames.empty() != flags.out.empty()) {
    return Complain(kUsage, "--rename needs --out, the prefix of the copy, and --out needs --rename");
  }
  if (flags.names.empty() && flags.against.empty() && flags.out.empty()) {
    const auto stat = files::Stat(flags.checkpoint);
    if (stat.ok() && stat->is_directory) {
      const absl::Status listed = ListFolder(flags.checkpoint);
      return listed.ok() ? kOk : Complain(kFailed, listed);
    }
  }
  const auto reader = Open(flags.checkpoint);
  if (!reader.ok()) return Complain(kFailed, reader.status());
  if (!flags.against.empty()) {
    const auto other = Open(flags.against);
    if (!other.ok()) return Complain(kFailed, other.status());
    const absl::StatusOr<bool> same = Compare(**reader, **other);
    if (!same.ok()) return Complain(kFailed, same.status());
    return *same ? kOk : kFailed;
  }
  const absl::Status done = !flags.out.empty()     ? Copy(**reader, flags.renames, flags.out)
                            : !flags.names.empty() ? Values(**reader, flags.names, flags.full)
                                                   : List(**reader);
  return done.ok() ? kOk : Complain(kFailed, done);
}

}  // namespace troupe::tool
