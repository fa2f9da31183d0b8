// What the program prints, and whether it arrived.
//
// A reader of results must be able to trust status 0: output that a full disk, a closed descriptor
// or a closed pipe swallowed is a failure. And a tensor of a gigabyte must not become a string of
// ten: text is handed over in pieces.
//
// Thread rule: the main thread only.
#ifndef TROUPE_TOOLS_TROUPE_OUTPUT_H_
#define TROUPE_TOOLS_TROUPE_OUTPUT_H_

#include <string>
#include <string_view>

#include "troupe/status.h"

namespace troupe::tool {

// Before anything opens a file: a standard stream that the caller closed would be the number of the
// next file that is opened, and its output would go there. Also, a reader that goes away, or a file
// that may not grow, is an error of Print and no signal.
void PrepareStandardStreams();

// Appends to standard output. After the first error nothing more is written.
void Print(std::string_view text);
// False as soon as something was lost: who prints without end may stop.
bool PrintWorks();
// Hands over what is buffered. INTERNAL says why something was lost.
absl::Status FinishPrinting();

// v with so many digits behind the point.
std::string Fixed(double v, int digits);

// Collects small pieces and prints them as they grow.
class Printer {
 public:
  ~Printer() { Flush(); }
  std::string& text() { return text_; }
  // To be called now and then. False when printing makes no sense any more.
  bool Continue() {
    if (text_.size() >= kPiece) Flush();
    return works_;
  }

 private:
  static constexpr size_t kPiece = 1 << 16;
  void Flush() {
    Print(text_);
    text_.clear();
    works_ = PrintWorks();
  }
  std::string text_;
  bool works_ = true;
};

}  // namespace troupe::tool

#endif  // TROUPE_TOOLS_TROUPE_OUTPUT_H_
