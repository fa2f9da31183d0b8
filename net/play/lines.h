// The lines of a topology, taken apart: words, quotes, comments, and the place of each word.
//
//   line = [ kind name | key ":" word ... ] [ "#" comment ]
//
// A line that is not indented is a head, an indented one a setting. Words are taken apart as a
// shell does it: by blanks and tabs, with '...', "..." and \ for what has a meaning of its own.
//
// Thread rule: pure functions.
#ifndef TROUPE_NET_PLAY_LINES_H_
#define TROUPE_NET_PLAY_LINES_H_

#include <string>
#include <string_view>
#include <vector>

#include "troupe/play.h"

namespace troupe::play {

struct Line {
  bool setting = false;
  Word head;  // the kind, or the key without its colon
  std::vector<Word> words;
};

// Those that are not empty. INVALID_ARGUMENT with the place.
absl::StatusOr<std::vector<Line>> ReadLines(std::string_view text, std::string_view file);

// "FILE:3:7: why".
absl::Status WrongAt(std::string_view file, Place at, std::string_view why);

// As a word of a line, or of a shell: in quotes where it needs them.
std::string Quoted(std::string_view word);

}  // namespace troupe::play

#endif  // TROUPE_NET_PLAY_LINES_H_
