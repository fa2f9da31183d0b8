// How the tests of the program `troupe` run it.
#include "tests/program/program_test.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include <sys/wait.h>
#include <unistd.h>

#include "troupe/strings.h"

namespace troupe {
namespace {

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string ShellQuoted(const std::string& text) {
  std::string s = "'";
  for (char c : text) s += c == '\'' ? "'\\''" : std::string(1, c);
  return s + "'";
}

}  // namespace

Ended RunProgram(const std::vector<std::string>& arguments, const Around& around) {
  const Folder folder;
  std::string command = around.before + " " + ShellQuoted(TROUPE_BINARY_DIR "/bin/troupe");
  for (const std::string& a : arguments) command += " " + ShellQuoted(a);
  command += " " + (around.output.empty() ? "> " + ShellQuoted(folder.Path("out")) : around.output) + " 2> " +
             ShellQuoted(folder.Path("err")) + " < /dev/null";
  const int status = std::system(command.c_str());
  Ended ended;
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  ended.out = folder.Read("out");
  ended.err = folder.Read("err");
  return ended;
}

Folder::Folder() {
  static std::atomic<int> count{0};
  path_ = std::filesystem::temp_directory_path() / StrCat("troupe_program_test_", ::getpid(), "_", count++);
  std::filesystem::create_directories(path_);
}
Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string Folder::Write(const std::string& name, const std::string& bytes) const {
  std::ofstream(path_ / name, std::ios::binary) << bytes;
  return Path(name);
}
std::string Folder::Read(const std::string& name) const { return ReadAll(path_ / name); }

std::vector<std::string> Folder::List(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_ / name)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::string TypeAttrText(const std::string& name, const std::string& dtype) {
  return StrCat("attr { key: '", name, "' value { type: ", dtype, " } } ");
}
std::string NodeDefText(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                        const std::string& attrs) {
  std::string s = StrCat("node { name: '", name, "' op: '", op, "' ");
  for (const std::string& i : inputs) StrAppend(&s, "input: '", i, "' ");
  return s + attrs + "}\n";
}
std::string PlaceholderText(const std::string& name, const std::string& dtype) {
  return NodeDefText(name, "Placeholder", {},
                     TypeAttrText("dtype", dtype) + "attr { key: 'shape' value { shape { unknown_rank: true } } } ");
}

}  // namespace troupe
