// What Troupe tells whoever runs the process: lines to spdlog's default logger.
//
// spdlog's own functions format lines by templates, whose compilation costs each file that calls
// them three seconds; these take a text that is done.
//
// A program sets level, form and place of the lines by spdlog (spdlog::set_default_logger). Lines
// of an object with static storage, which ends after spdlog has, go to the logger that was there
// last.
//
// Thread rule: all functions are thread safe, as far as the program's logger is. None throws: a
// line for which no memory is left says so.
#ifndef TROUPE_GRAPH_CORE_LOG_H_
#define TROUPE_GRAPH_CORE_LOG_H_

#include <new>
#include <string_view>

#include "troupe/strings.h"

namespace troupe {

enum class LogLevel { kInfo, kWarning, kError };

void LogLine(LogLevel level, std::string_view line) noexcept;

// A line of `pieces`, as StrCat joins them.
template <class... Pieces>
void LogPieces(LogLevel level, const Pieces&... pieces) noexcept {
  try {
    LogLine(level, StrCat(pieces...));
  } catch (const std::bad_alloc&) {
    LogLine(level, "a line is left out, since no memory is left for it");
  }
}
template <class... Pieces>
void LogInfo(const Pieces&... pieces) noexcept {
  LogPieces(LogLevel::kInfo, pieces...);
}
template <class... Pieces>
void LogWarning(const Pieces&... pieces) noexcept {
  LogPieces(LogLevel::kWarning, pieces...);
}
template <class... Pieces>
void LogError(const Pieces&... pieces) noexcept {
  LogPieces(LogLevel::kError, pieces...);
}
// One text needs no memory.
inline void LogInfo(const char* line) noexcept { LogLine(LogLevel::kInfo, line); }
inline void LogWarning(const char* line) noexcept { LogLine(LogLevel::kWarning, line); }
inline void LogError(const char* line) noexcept { LogLine(LogLevel::kError, line); }

}  // namespace troupe

#endif  // TROUPE_GRAPH_CORE_LOG_H_
