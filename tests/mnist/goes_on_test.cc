// The program examples/mnist goes on from its checkpoints, bit for bit: killed with kill -9 at any
// instant, or told to end by a signal. TROUPE_KILLS=100 in the environment is the long form: so
// many kills instead of 10.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/folder.h"
#include "troupe/files.h"
#include "troupe/proto/event.pb.h"
#include "troupe/records.h"
#include "troupe/strings.h"
#include "troupe/train/saver.h"

extern char** environ;

namespace troupe {
namespace goes_on_test {

using testing::Folder;

// E6: its dropout draws from the session's random streams, in training and in tests.
std::vector<std::string> Arguments(const std::string& model_dir, int64_t steps) {
  std::vector<std::string> a = {MNIST_PROGRAM, "--experiment", "E6", "--seed",       "5", "--threads",
                                "1",           "--batch",      "60", "--eval_every", "1", "--steps",
                                StrCat(steps), "--json"};
  if (!model_dir.empty()) a.insert(a.end(), {"--model_dir", model_dir, "--save_steps", "2"});
  return a;
}

pid_t Start(std::vector<std::string> arguments, const std::string& out) {
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child = 0;
  BOOST_REQUIRE_EQUAL(::posix_spawn(&child, argv[0], &files, nullptr, argv.data(), environ), 0);
  posix_spawn_file_actions_destroy(&files);
  return child;
}

// The exit status; the process has ended.
int Wait(pid_t child) {
  int status = 0;
  BOOST_REQUIRE_EQUAL(::waitpid(child, &status, 0), child);
  return status;
}

// The whole lines of a file.
std::vector<std::string> Lines(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::vector<std::string> lines;
  std::string line;
  while (std::getline(text, line) && !text.eof()) lines.push_back(line);
  return lines;
}

int64_t StepOf(const std::string& line) {
  constexpr std::string_view kHead = "{\"step\": ";
  BOOST_REQUIRE_MESSAGE(line.starts_with(kHead), line);
  return std::atoll(line.c_str() + kHead.size());
}

// By step: what the program prints of it without a folder and without an interruption.
std::map<int64_t, std::string> Undisturbed(const Folder& folder, int64_t steps) {
  const std::string out = folder.path() + "/undisturbed";
  BOOST_REQUIRE_EQUAL(Wait(Start(Arguments("", steps), out)), 0);
  std::map<int64_t, std::string> lines;
  for (const std::string& line : Lines(out)) lines[StepOf(line)] = line;
  BOOST_REQUIRE_EQUAL(lines.size(), static_cast<size_t>(steps));
  return lines;
}

// True as soon as `holds` does; false when the child has ended, or after a minute without that.
template <class F>
bool Await(pid_t child, F&& holds) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!holds()) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0)
      return false;
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  return true;
}

bool Saving(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().filename().string().find("temp") != std::string::npos) return true;
  }
  return false;
}

BOOST_AUTO_TEST_CASE(a_run_that_is_killed_goes_on_bit_for_bit) {
  const char* const asked = std::getenv("TROUPE_KILLS");
  const int kills = asked != nullptr ? std::max(2, std::atoi(asked)) : 10;
  int inside = 0;  // a save
  const Folder folder;
  const std::string run = folder.path() + "/run", out = folder.path() + "/out";
  std::mt19937 draw(3);
  std::map<int64_t, std::string> told;
  int64_t last = 0, resumed = 0;
  const auto take = [&] {
    const std::vector<std::string> lines = Lines(out);
    for (size_t i = 0; i < lines.size(); ++i) {
      const int64_t step = StepOf(lines[i]);
      const auto [it, added] = told.emplace(step, lines[i]);
      BOOST_TEST(it->second == lines[i], "told twice, and differently");
      if (i == 0 && step > 1) ++resumed;
      last = std::max(last, step);
    }
  };
  for (int kill = 0; kill < kills; ++kill) {
    const pid_t child = Start(Arguments(run, 1'000'000), out);
    // After it has come further than those before it: half of the kills when a save is under way,
    // the others at a random instant of the steps that follow.
    const auto further = [&] {
      const std::vector<std::string> lines = Lines(out);
      return !lines.empty() && StepOf(lines.back()) > last;
    };
    BOOST_REQUIRE_MESSAGE(Await(child, further), "it does not come further than step " << last);
    if (kill % 2 == 0) {
      // A save so short that it is never seen is no reason to fail.
      const auto seen = std::chrono::steady_clock::now() + std::chrono::seconds(1);
      bool saving = false;
      Await(child, [&] { return (saving = Saving(run)) || std::chrono::steady_clock::now() > seen; });
      inside += saving;
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(draw() % 30000));
    }
    ::kill(child, SIGKILL);
    const int status = Wait(child);
    BOOST_REQUIRE(WIFSIGNALED(status));
    BOOST_REQUIRE_EQUAL(WTERMSIG(status), SIGKILL);
    take();
  }
  const int64_t end = last + 30;  // another epoch begins
  BOOST_REQUIRE_EQUAL(Wait(Start(Arguments(run, end), out)), 0);
  BOOST_TEST(Lines(out).back() == Lines(out)[Lines(out).size() - 2]);  // the last object repeats the last test
  take();
  BOOST_TEST_MESSAGE(kills << " kills, " << inside << " of them while a save was seen; " << last << " steps, "
                           << resumed << " starts from a checkpoint");
  BOOST_TEST(resumed >= 2);
  BOOST_REQUIRE_EQUAL(told.size(), static_cast<size_t>(end));
  BOOST_TEST((told == Undisturbed(folder, end)));
  // Once more: nothing is left to do, and the last object is the same.
  BOOST_REQUIRE_EQUAL(Wait(Start(Arguments(run, end), out)), 0);
  BOOST_REQUIRE_EQUAL(Lines(out).size(), 1u);
  BOOST_TEST(Lines(out)[0] == told[end]);
}

BOOST_AUTO_TEST_CASE(a_signal_ends_a_run_with_a_checkpoint) {
  const Folder folder;
  const std::string run = folder.path() + "/run", out = folder.path() + "/out";
  std::map<int64_t, std::string> told;
  int64_t last = 0;
  for (const int signal : {SIGINT, SIGTERM}) {
    const pid_t child = Start(Arguments(run, 1'000'000), out);
    BOOST_REQUIRE(Await(child, [&] { return Lines(out).size() >= 3; }));
    ::kill(child, signal);
    BOOST_REQUIRE_EQUAL(Wait(child), 0);
    const std::vector<std::string> lines = Lines(out);
    BOOST_TEST(lines.back() == lines[lines.size() - 2]);
    const int64_t before = last;
    last = StepOf(lines.back());
    BOOST_TEST(StepOf(lines[0]) == before + 1);  // nothing is done twice
    for (const std::string& line : lines) told[StepOf(line)] = line;
    const auto newest = train::LatestCheckpoint(run);
    BOOST_REQUIRE_MESSAGE(newest.ok(), newest.status());
    BOOST_TEST(*newest == StrCat(run, "/model-", last));
  }
  BOOST_TEST((told == Undisturbed(folder, last)));
  // Its event files say the same.
  int files_of_events = 0;
  std::map<int64_t, float> losses;
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    if (entry.path().filename().string().find("tfevents") == std::string::npos) continue;
    ++files_of_events;
    const auto reader = files::RecordReader::Open(entry.path().string());
    BOOST_REQUIRE_MESSAGE(reader.ok(), reader.status());
    std::string_view record;
    for (auto more = (*reader)->Next(&record); *more; more = (*reader)->Next(&record)) {
      BOOST_REQUIRE_MESSAGE(more.ok(), more.status());
      proto::Event event;
      BOOST_REQUIRE(event.ParseFromString(std::string(record)));
      for (const auto& value : event.summary().value()) {
        if (value.tag() == "loss") losses[event.step()] = value.simple_value();
      }
    }
  }
  BOOST_TEST(files_of_events == 2);
  BOOST_REQUIRE_EQUAL(losses.size(), told.size());
  for (const auto& [step, line] : told) {
    char text[64];
    std::snprintf(text, sizeof(text), "\"loss\": %.9g,", static_cast<double>(losses[step]));
    BOOST_TEST(line.find(text) != std::string::npos, line << " and " << text);
  }
}

BOOST_AUTO_TEST_CASE(a_folder_of_another_run_is_refused) {
  const Folder folder;
  const std::string run = folder.path() + "/run", out = folder.path() + "/out";
  BOOST_REQUIRE_EQUAL(Wait(Start(Arguments(run, 2), out)), 0);
  std::vector<std::string> other = Arguments(run, 4);
  other[2] = "E7";
  const int status = Wait(Start(other, out));
  BOOST_TEST(WEXITSTATUS(status) == 1);
  BOOST_TEST(Lines(out).empty());
  // A list that names a checkpoint which has gone is no fresh start.
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    if (entry.path().extension() == ".index") std::filesystem::remove(entry.path());
  }
  BOOST_TEST(WEXITSTATUS(Wait(Start(Arguments(run, 4), out))) == 1);
}

}  // namespace goes_on_test
}  // namespace troupe
