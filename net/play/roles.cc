#include "net/play/roles.h"

#include <mutex>
#include <utility>
#include <vector>

namespace troupe::play {
namespace {

struct Registered {
  std::mutex mu;
  std::map<std::string, RoleFactory> roles;
  std::vector<std::function<void(caf::actor_system_config*)>> configure;
};

// Used by initialisers of other files.
Registered& All() {
  static auto* const all = new Registered;
  return *all;
}

}  // namespace

absl::Status RegisterRole(const std::string& name, RoleFactory factory) {
  if (name.empty() || factory == nullptr) return InvalidArgument("a role has a name and a factory");
  Registered& all = All();
  std::lock_guard<std::mutex> lock(all.mu);
  if (!all.roles.emplace(name, std::move(factory)).second) return AlreadyExists("there is a role '", name, "' already");
  return absl::OkStatus();
}

void ConfigureSystems(std::function<void(caf::actor_system_config*)> configure) {
  Registered& all = All();
  std::lock_guard<std::mutex> lock(all.mu);
  all.configure.push_back(std::move(configure));
}

absl::StatusOr<RoleFactory> FindRole(const std::string& name) {
  Registered& all = All();
  std::lock_guard<std::mutex> lock(all.mu);
  if (const auto it = all.roles.find(name); it != all.roles.end()) return it->second;
  std::vector<std::string> names;
  for (const auto& [known, factory] : all.roles) names.push_back(known);
  return NotFound("no role '", CEscape(name), "' is registered; ",
                  names.empty() ? "there is none: a program, or a library that --load names, registers roles"
                                : StrCat("these are: ", StrJoin(names, ", ")));
}

void ConfigureSystem(caf::actor_system_config* config) {
  std::vector<std::function<void(caf::actor_system_config*)>> configure;
  {
    Registered& all = All();
    std::lock_guard<std::mutex> lock(all.mu);
    configure = all.configure;
  }
  for (const auto& each : configure) each(config);
}

}  // namespace troupe::play
