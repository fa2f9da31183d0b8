// genops OPS_H OPS_CC: writes the typed builders of the ops that are linked into this program. A
// file that would not change is left alone, so that what includes it is not compiled again after
// every change of a kernel.
#include <cstdio>
#include <fstream>
#include <sstream>

#include "tools/genops/builders.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s OPS_H OPS_CC\n", argv[0]);
    return 2;
  }
  const std::vector<const troupe::OpDef*> ops = troupe::OpRegistry::Global().List();
  const auto write = [](const char* path, const std::string& text) {
    std::ostringstream old;
    if (std::ifstream in(path, std::ios::binary); in && (old << in.rdbuf()) && old.str() == text) return true;
    std::ofstream out(path, std::ios::binary);
    out << text;
    out.close();
    if (!out) std::fprintf(stderr, "cannot write %s\n", path);
    return static_cast<bool>(out);
  };
  return write(argv[1], troupe::genops::Header(ops)) && write(argv[2], troupe::genops::Source(ops)) ? 0 : 1;
}
