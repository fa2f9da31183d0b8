#include "graph/core/log.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>

#include <spdlog/spdlog.h>

namespace troupe {
namespace {

// The default logger when the process began to end: null before, and where the program had none. It
// is never destroyed: spdlog lets go of its own, and who is still at work then speaks on.
std::atomic<spdlog::logger*> last_logger{nullptr};
std::atomic<bool> has_ended{false};
using Logger = std::shared_ptr<spdlog::logger>;
alignas(Logger) unsigned char last_logger_memory[sizeof(Logger)];

// Objects with static storage end in the inverse order of their making: spdlog's registry is made
// first, so that it is there when its logger is taken.
[[maybe_unused]] const bool kept = [] {
  (void)spdlog::default_logger_raw();
  return std::atexit([] {
           last_logger = (new (last_logger_memory) Logger(spdlog::default_logger()))->get();
           has_ended = true;
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
  if (logger == nullptr && !has_ended) logger = spdlog::default_logger_raw();
  // A program that has called spdlog::shutdown has none.
  if (logger == nullptr) return;
  try {
    logger->log(LevelOf(level), spdlog::string_view_t(line.data(), line.size()));
  } catch (...) {  // of a sink of the program's
    std::fputs("troupe: a line could not be logged\n", stderr);
  }
}

}  // namespace troupe
