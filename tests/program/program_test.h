// Runs the built program and looks at what it says and how it ends.
#ifndef TROUPE_TESTS_PROGRAM_PROGRAM_TEST_H_
#define TROUPE_TESTS_PROGRAM_PROGRAM_TEST_H_

#include <filesystem>
#include <string>
#include <vector>

namespace troupe {

struct Ended {
  int status = -1;
  std::string out, err;
};
// What the shell does around the program.
struct Around {
  std::string before;  // commands before it, "ulimit -f 1;"
  std::string output;  // where standard output goes, "> /dev/full"; empty: into Ended::out
};
Ended RunProgram(const std::vector<std::string>& arguments, const Around& around = {});

// A folder that goes away with the object.
class Folder {
 public:
  Folder();
  ~Folder();
  std::string Path(const std::string& name) const { return (path_ / name).string(); }
  // Writes a file and returns its path.
  std::string Write(const std::string& name, const std::string& bytes) const;
  std::string Read(const std::string& name) const;
  bool Has(const std::string& name) const { return std::filesystem::exists(path_ / name); }
  // The names of the files in a folder below, sorted.
  std::vector<std::string> List(const std::string& name) const;

 private:
  std::filesystem::path path_;
};

// Nodes of a GraphDef in text form.
std::string PlaceholderText(const std::string& name, const std::string& dtype);
std::string NodeDefText(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                        const std::string& attrs = "");
std::string TypeAttrText(const std::string& name, const std::string& dtype);

}  // namespace troupe

#endif  // TROUPE_TESTS_PROGRAM_PROGRAM_TEST_H_
