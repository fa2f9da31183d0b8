// The commands of the guide, run as they are shown, and compared with the output that is shown.
//
// In a block of "```sh" each line that begins with "$ " is a command (one that ends in a backslash
// goes on in the next line). The lines below it are what it prints, on either stream, with "..."
// for what differs from run to run. The commands of a page run one after the other in a folder
// that has the files of docs/guide, with the build's programs in PATH.
#include <boost/test/unit_test.hpp>

#include <unistd.h>

#include "tests/common/shell.h"
#include "tests/docs/pages.h"

namespace troupe {
namespace {

struct Command {
  std::string text, shown, place;
};
std::vector<Command> CommandsOf(const std::string& page) {
  std::vector<Command> commands;
  for (const Block& block : BlocksOf(page)) {
    if (block.language != "sh") continue;
    std::istringstream in(block.text);
    bool goes_on = false;
    int line_number = block.line;
    for (std::string line; std::getline(in, line);) {
      ++line_number;
      if (goes_on) {
        commands.back().text += "\n" + line;
      } else if (line.starts_with("$ ")) {
        commands.push_back({line.substr(2), "", page + ":" + std::to_string(line_number)});
      } else {
        BOOST_REQUIRE_MESSAGE(!commands.empty(), page + ": output without a command");
        commands.back().shown += line + "\n";
        continue;
      }
      goes_on = line.ends_with("\\");
    }
  }
  return commands;
}

BOOST_AUTO_TEST_CASE(commands_print_what_is_shown) {
  namespace fs = std::filesystem;
  const fs::path guide = fs::path(TROUPE_SOURCE_DIR) / "docs/guide";
  int commands = 0;
  for (const std::string& page : Pages("docs/guide")) {
    const fs::path folder = fs::temp_directory_path() / ("troupe_guide_" + std::to_string(::getpid()));
    fs::create_directories(folder);
    for (const auto& entry : fs::directory_iterator(guide)) {
      if (entry.path().extension() == ".pbtxt" || entry.path().extension() == ".play") fs::copy(entry.path(), folder);
    }
    fs::create_symlink(TROUPE_SCALED_TANH, folder / "libscaled_tanh.so");
    for (const Command& c : CommandsOf(page)) {
      std::ofstream(folder / "command") << c.text << "\n";
      const std::string out =
          testing::RunShell("cd '" + folder.string() +
                            "' && PATH=" TROUPE_BINARY_DIR "/bin:$PATH timeout 60 bash command 2>&1")
              .out;
      BOOST_TEST(Like(out, c.shown), c.place << " prints\n" << out);
      ++commands;
    }
    fs::remove_all(folder);
  }
  BOOST_TEST(commands > 25);
}

}  // namespace
}  // namespace troupe
