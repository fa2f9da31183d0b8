#include "graph/core/device_name.h"

#include <charconv>

namespace troupe {
namespace {

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::string Upper(std::string_view s) {
  std::string u(s);
  for (char& c : u) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return u;
}

// A letter, then letters, digits and underscores.
bool IsIdentifier(std::string_view s) {
  if (s.empty() || !IsLetter(s[0])) return false;
  for (char c : s) {
    if (!IsLetter(c) && !IsDigit(c) && c != '_') return false;
  }
  return true;
}

bool ParseNumber(std::string_view s, int* value) {
  if (s.empty() || !IsDigit(s[0])) return false;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), *value);
  return error == std::errc() && end == s.data() + s.size();
}

// One field of a name, filled by Parse; `why` says what is wrong with it.
struct Parser {
  DeviceName name;
  bool seen_job = false, seen_replica = false, seen_task = false, seen_device = false;
  std::string why;

  bool Fail(std::string reason) {
    why = std::move(reason);
    return false;
  }

  bool Once(bool* seen, std::string_view what) {
    if (*seen) return Fail(StrCat("it has two ", what, " fields"));
    *seen = true;
    return true;
  }

  bool Number(std::string_view text, std::string_view what, std::optional<int>* field) {
    if (text == "*") return true;
    int value = 0;
    if (!ParseNumber(text, &value)) return Fail(StrCat("'", text, "' is no number of a ", what));
    *field = value;
    return true;
  }

  // "TYPE:ID", "TYPE:*", "TYPE", "*".
  bool Device(std::string_view text) {
    if (!Once(&seen_device, "device")) return false;
    std::string_view type = text, id;
    const size_t colon = text.find(':');
    if (colon != std::string_view::npos) {
      type = text.substr(0, colon);
      id = text.substr(colon + 1);
      if (id.empty()) return Fail("the device's number is missing after ':'");
    }
    if (type != "*") {
      if (!IsIdentifier(type)) return Fail(StrCat("'", type, "' is no device type"));
      name.type = Upper(type);
    }
    return id.empty() || Number(id, "device", &name.id);
  }

  // One field without its leading '/'.
  bool Field(std::string_view field) {
    const size_t colon = field.find(':');
    const std::string_view key = field.substr(0, colon);
    const bool has_value = colon != std::string_view::npos;
    const std::string_view value = has_value ? field.substr(colon + 1) : std::string_view();
    if (key == "cpu" || key == "gpu" || key == "CPU" || key == "GPU") return Device(field);
    if (key != "job" && key != "replica" && key != "task" && key != "device") {
      return Fail(StrCat("'/", field, "' is none of /job:, /replica:, /task:, /device:, /cpu:, /gpu:"));
    }
    if (value.empty()) return Fail(StrCat("'/", key, ":' has no value"));
    if (key == "device") return Device(value);
    if (key == "job") {
      if (!Once(&seen_job, key)) return false;
      if (value == "*") return true;
      if (!IsIdentifier(value)) return Fail(StrCat("'", value, "' is no name of a job"));
      name.job = value;
      return true;
    }
    if (key == "replica") return Once(&seen_replica, key) && Number(value, key, &name.replica);
    return Once(&seen_task, key) && Number(value, key, &name.task);
  }

  bool Run(std::string_view text) {
    if (text.empty() || text == "/") return true;
    if (text[0] != '/') return Device(text);
    text.remove_prefix(1);
    while (true) {
      const size_t slash = text.find('/');
      if (!Field(text.substr(0, slash))) return false;
      if (slash == std::string_view::npos) return true;
      text.remove_prefix(slash + 1);
    }
  }
};

template <class T>
bool Covers(const std::optional<T>& pattern, const std::optional<T>& value) {
  return !pattern || (value && *pattern == *value);
}

template <class T>
bool Compatible(const std::optional<T>& a, const std::optional<T>& b) {
  return !a || !b || *a == *b;
}

template <class T>
absl::Status MergeField(std::string_view what, const DeviceName& a, const DeviceName& b, std::optional<T>* target,
                        const std::optional<T>& other) {
  if (!Compatible(*target, other)) {
    return InvalidArgument("device names '", a.ToString(), "' and '", b.ToString(), "' name different ", what);
  }
  if (other) *target = other;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DeviceName> DeviceName::Parse(std::string_view text) {
  Parser parser;
  if (!parser.Run(text)) {
    return InvalidArgument("'", CEscape(text), "' is no device name: ", parser.why);
  }
  return parser.name;
}

absl::StatusOr<DeviceName> DeviceName::ParseFull(std::string_view text) {
  TROUPE_ASSIGN_OR_RETURN(DeviceName name, Parse(text));
  if (!name.IsComplete()) {
    return InvalidArgument("'", CEscape(text),
                           "' is no full device name: it must have job, replica, task, type and number, as "
                           "/job:worker/replica:0/task:0/device:CPU:0");
  }
  return name;
}

std::string DeviceName::TaskName() const {
  std::string s;
  if (job) StrAppend(&s, "/job:", *job);
  if (replica) StrAppend(&s, "/replica:", *replica);
  if (task) StrAppend(&s, "/task:", *task);
  return s;
}

std::string DeviceName::LocalName() const {
  if (!type && !id) return "";
  std::string s = StrCat("/device:", type ? std::string_view(*type) : std::string_view("*"), ":");
  if (id) {
    StrAppend(&s, *id);
  } else {
    s += "*";
  }
  return s;
}

std::string DeviceName::ToString() const { return TaskName() + LocalName(); }

bool DeviceName::Matches(const DeviceName& o) const {
  return Covers(job, o.job) && Covers(replica, o.replica) && Covers(task, o.task) && Covers(type, o.type) &&
         Covers(id, o.id);
}

bool DeviceName::IsCompatibleWith(const DeviceName& o) const {
  return Compatible(job, o.job) && Compatible(replica, o.replica) && Compatible(task, o.task) &&
         Compatible(type, o.type) && Compatible(id, o.id);
}

void DeviceName::FillFrom(const DeviceName& defaults) {
  if (!job) job = defaults.job;
  if (!replica) replica = defaults.replica;
  if (!task) task = defaults.task;
  const bool same_type = Compatible(type, defaults.type);
  if (!type) type = defaults.type;
  if (!id && same_type) id = defaults.id;
}

absl::Status MergeDevNames(DeviceName* target, const DeviceName& other, bool allow_soft) {
  DeviceName merged = *target;
  TROUPE_RETURN_IF_ERROR(MergeField("jobs", *target, other, &merged.job, other.job));
  TROUPE_RETURN_IF_ERROR(MergeField("replicas", *target, other, &merged.replica, other.replica));
  TROUPE_RETURN_IF_ERROR(MergeField("tasks", *target, other, &merged.task, other.task));
  if (allow_soft && !Compatible(merged.type, other.type)) {
    merged.type.reset();
    merged.id.reset();
  } else {
    TROUPE_RETURN_IF_ERROR(MergeField("device types", *target, other, &merged.type, other.type));
    if (allow_soft && !Compatible(merged.id, other.id)) {
      merged.id.reset();
    } else {
      TROUPE_RETURN_IF_ERROR(MergeField("devices", *target, other, &merged.id, other.id));
    }
  }
  *target = std::move(merged);
  return absl::OkStatus();
}

}  // namespace troupe
