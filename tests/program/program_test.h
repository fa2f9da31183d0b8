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
Ended RunProgram(const std::vector<std::string>& arguments);

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
