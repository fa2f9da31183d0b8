#include "graph/core/log.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include <spdlog/spdlog.h>

namespace troupe {
namespace {

// The default logger when the process began to end. It stays: spdlog lets go of its own, and who is
// still at work then speaks on.
std::atomic<spdlog::logger*> last_logger{nullptr};

// Objects with static storage end in the inverse order of their making: spdlog's registry is made
// first, so that it is there when its logger is taken.
[[maybe_unused]] const bool kept = [] {
  (void)spdlog::default_logger_raw();
  return std::atexit([] {
           // Never deleted.
           auto* const logger = new (std::nothrow) std::shared_ptr<spdlog::logger>(spdlog::default_logger());
           if (logger != nullptr) last_logger = logger->get();
         }) == 0;
}();

spdlog::level::level_enum LevelOf(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

void LogLine(LogLevel level, std::string_view line) noexcept {
  spdlog::logger* logger = last_logger.load(std::memory_order_acquire);
  if (logger == nullptr) logger = spdlog::default_logger_raw();
  // A program that has called spdlog::shutdown has none.
  if (logger == nullptr) return;
  try {
    logger->log(LevelOf(level), spdlog::string_view_t(line.data(), line.size()));
  } catch (...) {  // of a sink of the program's
    std::fputs("troupe: a line could not be logged\n", stderr);
  }
}

}  // namespace troupe
