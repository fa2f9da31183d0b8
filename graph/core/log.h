// What Troupe tells whoever runs the process: lines to spdlog's default logger.
//
// spdlog's own functions format lines by templates, whose compilation costs each file that calls
// them three seconds; these take a text that is done.
//
// A program sets level, form and place of the lines by spdlog (spdlog::set_default_logger). Lines
// of an object with static storage, which ends after spdlog has, go to the logger that was there
// last.
//
// Thread rule: all functions are thread safe, as far as the program's logger is. None throws:
// a line of several pieces for which no memory is left is "(left out)".
#ifndef TROUPE_GRAPH_CORE_LOG_H_
#define TROUPE_GRAPH_CORE_LOG_H_

#include <exception>
#include <string>
#include <string_view>

#include "troupe/strings.h"

namespace troupe {

enum class LogLevel { kInfo, kWarning, kError };

void LogLine(LogLevel level, std::string_view line) noexcept;

// A line of `pieces`, as StrCat joins them.
template <class... Pieces>
void LogPieces(LogLevel level, const Pieces&... pieces) noexcept {
  // One text needs no memory.
  if constexpr (sizeof...(pieces) == 1) {
    LogLine(level, StrPiece(pieces...).view());
  } else {
    std::string line;
    try {
      line = StrCat(pieces...);
    } catch (const std::exception&) {
      line = "(left out)";
    }
    LogLine(level, line);
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

}  // namespace troupe

#endif  // TROUPE_GRAPH_CORE_LOG_H_
