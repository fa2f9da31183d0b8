// What `troupe trace` makes of files that are damaged, or made to do harm, and of times that are
// equal.
#include <boost/test/unit_test.hpp>
#include <random>

#include "net/json.h"
#include "tests/program/hand_trace.h"
#include "tests/program/program_test.h"
#include "tools/troupe/critical_path.h"
#include "tools/troupe/trace_file.h"
#include "tools/troupe/trace_merge.h"

namespace troupe {
namespace trace_damage_test {

constexpr const char* kWorker = "/job:worker/replica:0/task:0";

// "OK", or what is wrong with it.
std::string ReadAs(const std::string& text) {
  const auto file = tool::ParseTrace(text);
  return file.ok() ? std::string("OK") : std::string(file.status().message());
}
std::string MergedAs(const std::vector<std::string>& files) {
  const auto merged = tool::MergeTraces(files);
  return merged.ok() ? ReadAs(*merged) : std::string(merged.status().message());
}
bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
// The nodes of the path of a trace's first step, and what was spent on each.
std::string PathOf(const std::string& text) {
  const auto file = tool::ParseTrace(text);
  if (!file.ok()) return std::string(file.status().message());
  const auto path = tool::CriticalPath(*file, file->steps[0]);
  if (!path.ok()) return std::string(path.status().message());
  std::string all;
  for (const tool::PathPart& p : *path)
    StrAppend(&all, tool::NameOf(p.what), " ", p.run == nullptr ? "-" : file->texts[p.run->node], " ", p.end - p.begin,
              "\n");
  return all;
}

BOOST_AUTO_TEST_SUITE(trace_damage)

BOOST_AUTO_TEST_CASE(names_may_have_escapes) {
  Hand h;
  h.Task(0, "\\u002fjob:worker");
  h.Step(1, 0, 10);
  h.Run(1, "caf\\u00e9 \\uD83D\\uDE00 \\u20ac", 0, 0, 10, {});
  const auto file = tool::ParseTrace(h.Text());
  BOOST_REQUIRE_MESSAGE(file.ok(), file.status());
  BOOST_TEST(file->tasks[0].name == "/job:worker");
  BOOST_TEST(file->texts[file->runs[0].node] == "caf\xc3\xa9 \xf0\x9f\x98\x80 \xe2\x82\xac");
  for (const char* const bad : {"\\ud83d", "\\ud83dx", "\\ud83d\\u0041", "\\ude00", "\\u12", "\\u12g4", "\\u"}) {
    Hand broken;
    broken.Task(0, kWorker);
    broken.Step(1, 0, 10);
    broken.Run(1, bad, 0, 0, 10, {});
    const std::string why = ReadAs(broken.Text());
    BOOST_TEST(why.starts_with("line 4, column "), bad << ": " << why);
    BOOST_TEST((Has(why, "half of a character stands alone") || Has(why, "four hexadecimal digits")),
               bad << ": " << why);
  }
  // A name with signs that a terminal obeys is shown, and obeys nobody.
  Hand signs;
  signs.Task(0, kWorker);
  signs.Step(1, 0, 10);
  signs.Run(1, "red\\u001b[31m", 0, 0, 10, {});
  const Folder folder;
  const std::string path = folder.Write("t.json", signs.Text());
  const Ended shown = RunProgram({"trace", path});
  BOOST_TEST(shown.status == 0, shown.err);
  BOOST_TEST(Has(shown.out, "red?[31m"), shown.out);
  const Ended json = RunProgram({"trace", "--json", path});
  BOOST_TEST(Has(json.out, "red\\u001b[31m"), json.out);
  // What is written is read again.
  const Ended both = RunProgram({"trace", "--json", path, path, "--out", folder.Path("all.json")});
  BOOST_TEST(both.status == 0, both.err);
  BOOST_TEST(ReadAs(folder.Read("all.json")) == "OK");
}

BOOST_AUTO_TEST_CASE(of_many_keys_each_is_compared_with_all) {
  for (const int n : {3, 16, 17, 18, 200}) {
    std::string event = "{\"traceEvents\": [\n{\"ph\": \"i\"";
    for (int i = 0; i < n; ++i) StrAppend(&event, ", \"k", i, "\": ", i);
    BOOST_TEST(Has(ReadAs(event + "}]}"), "there is no step in it"), n);
    BOOST_TEST(Has(ReadAs(StrCat(event, ", \"k", n / 2, "\": 1}]}")), StrCat("the key 'k", n / 2, "' is given twice")),
               n);
    BOOST_TEST(Has(ReadAs(StrCat(event, ", \"k", n - 1, "\": 1}]}")), "is given twice"), n);
  }
}

// Runs of one step wait for runs of that step, and 0 is no run.
BOOST_AUTO_TEST_CASE(what_a_run_waited_for_is_of_its_step_and_there) {
  const auto text = [](const std::string& more) {
    Hand h;
    h.Task(0, kWorker);
    h.Step(1, 0, 10);
    h.Step(2, 10, 20);
    h.Run(1, "n", 0, 0, 10, {});
    h.Run(2, "m", 0, 10, 20, {.step = 2, .text = more});
    return h.Text();
  };
  BOOST_TEST(ReadAs(text(", \"after\": 0, \"from\": 0")) == "OK");
  BOOST_TEST(ReadAs(text(", \"after\": 1")) == "line 6: event 2: it names event 1, which is of another step");
  BOOST_TEST(ReadAs(text(", \"from\": 7")) == "line 6: event 2: it names event 7, which is not there");
  BOOST_TEST(Has(PathOf(text("")), "compute n"));
  const auto itself = tool::ParseTrace(text(", \"after\": 2"));
  BOOST_REQUIRE(itself.ok());
  BOOST_TEST(tool::CriticalPath(*itself, itself->steps[1]).status().message() ==
             "line 6: event 2 waits for itself, by way of others");
}

BOOST_AUTO_TEST_CASE(where_files_are_put_together_nothing_stays_nothing) {
  const Folder folder;
  Hand first(kWorker), second(kWorker);
  for (Hand* h : {&first, &second}) {
    h->Task(0, kWorker);
    h->Step(1, 0, 30);
    h->Run(5, "n", 0, 0, 10, {});
    h->Run(6, "m", 0, 10, 30, {.text = ", \"after\": 0, \"from\": 0"});
  }
  const auto merged = tool::MergeTraces({folder.Write("a.json", first.Text()), folder.Write("b.json", second.Text())});
  BOOST_REQUIRE_MESSAGE(merged.ok(), merged.status());
  const auto file = tool::ParseTrace(*merged);
  BOOST_REQUIRE_MESSAGE(file.ok(), file.status());
  BOOST_REQUIRE(file->runs.size() == 4u);
  for (const tool::TraceRun& r : file->runs) {
    BOOST_TEST(r.after == 0, r.id);
    BOOST_TEST(r.from == 0, r.id);
  }
}

// A process that the file does not name is none of another file's, and its events are not lost.
BOOST_AUTO_TEST_CASE(processes_without_a_name_stay_apart) {
  const Folder folder;
  Hand h(kWorker);
  h.Task(0, kWorker);
  h.Step(1, 0, 30);
  h.Run(1, "far", 3, 5, 20, {});
  h.Run(2, "near", 0, 20, 30, {.after = 1});
  const std::string path = folder.Write("a.json", h.Text());
  const auto merged = tool::MergeTraces({path, path});
  BOOST_REQUIRE_MESSAGE(merged.ok(), merged.status());
  const auto file = tool::ParseTrace(*merged);
  BOOST_REQUIRE_MESSAGE(file.ok(), file.status());
  BOOST_TEST(file->runs.size() == 4u);
  std::vector<std::string> names;
  for (const tool::TraceTask& t : file->tasks) names.push_back(t.name);
  std::sort(names.begin(), names.end());
  BOOST_TEST(StrJoin(names, ", ") == StrCat(kWorker, ", process 3 of file 1, process 3 of file 2"));
}

// Each number is one that a clock may tell; their sums are none.
BOOST_AUTO_TEST_CASE(numbers_that_are_too_big_together_are_told) {
  const Folder folder;
  Hand long_steps;
  long_steps.Task(0, kWorker);
  for (int i = 1; i <= 1200; ++i) long_steps.Step(i, 0, 9e12);
  BOOST_TEST(Has(ReadAs(long_steps.Text()), "line 114: up to step 112 the steps took more than 1000000000 seconds"),
             ReadAs(long_steps.Text()));
  BOOST_TEST(Has(ReadAs("{\"otherData\": {\"origin_ns\": \"-9223372036854775808\"},\n\"traceEvents\": []}"),
                 "line 1, column 29: origin_ns is no number"));

  // Each file's clock is 31 years before the one before it.
  std::vector<std::string> chain;
  for (int i = 0; i < 12; ++i) {
    Hand h(StrCat("/job:", i));
    h.Task(0, StrCat("/job:", i), 0);
    h.Task(1, StrCat("/job:", i + 1), 9e14);
    h.Step(1, 0, 1);
    chain.push_back(folder.Write(StrCat(i, ".json"), h.Text()));
  }
  BOOST_TEST(Has(MergedAs(chain), "1.json: the clock of /job:2 would be 1800000000 seconds before"), MergedAs(chain));
  Hand early(kWorker, -2'000'000'000'000'000), late(kWorker, 2'000'000'000'000'000);
  for (Hand* h : {&early, &late}) {
    h->Task(0, kWorker);
    h->Step(1, 0, 1);
  }
  const std::string apart =
      MergedAs({folder.Write("early.json", early.Text()), folder.Write("late.json", late.Text())});
  BOOST_TEST(Has(apart, "late.json: line 3, column "), apart);
  BOOST_TEST(Has(apart, "the two are not of one run"), apart);
  std::vector<std::string> big;
  for (int i = 0; i < 2; ++i) {
    Hand h(kWorker);
    h.Task(0, kWorker);
    h.Step(1, 0, 1);
    h.Run(1, "n", 0, 0, 1, {.text = ", \"more\": 0"});
    std::string text = h.Text();
    text.replace(text.find("\"id\": 1"), 7, "\"id\": 9007199254740992");
    big.push_back(folder.Write(StrCat("big", i, ".json"), text));
  }
  BOOST_TEST(Has(MergedAs(big), "big1.json: line 4, column "), MergedAs(big));
  BOOST_TEST(Has(MergedAs(big), "there are more numbers than can be told"), MergedAs(big));
}

// Iterations of a loop that a coarse clock gives one time: what waits for what is the order, and
// what nothing waited for is the end.
BOOST_AUTO_TEST_CASE(where_times_are_equal_what_waits_for_what_is_the_order) {
  Hand h;
  h.Task(0, kWorker);
  h.Step(1, 0, 10);
  h.Run(9, "start", 0, 0, 10, {});
  h.Run(8, "merge", 0, 10, 10, {.after = 9});
  h.Run(2, "body", 0, 10, 10, {.after = 8});
  h.Run(5, "next", 0, 10, 10, {.after = 2});
  h.Run(4, "merge", 0, 10, 10, {.after = 5});
  h.Run(7, "body", 0, 10, 10, {.after = 4});
  h.Run(3, "exit", 0, 10, 10, {.after = 7});
  const auto file = tool::ParseTrace(h.Text());
  BOOST_REQUIRE_MESSAGE(file.ok(), file.status());
  BOOST_TEST(file->steps[0].last == 3);
  BOOST_TEST(PathOf(h.Text()) == "compute start 10000\n");
  // A node that asked when the tensor was just done, waited for it, however short that was.
  Hand sent;
  sent.Task(0, kWorker);
  sent.Task(1, "/job:ps/replica:0/task:0");
  sent.Step(1, 0, 30);
  sent.Run(1, "make", 0, 0, 10, {});
  sent.Run(2, "send", 0, 10, 10, {.after = 1});
  sent.Run(3, "recv", 1, 10, 10, {.from = 2, .category = "receives"});
  sent.Run(4, "use", 1, 10, 30, {.after = 3});
  BOOST_TEST(PathOf(sent.Text()) == "compute make 10000\ncompute use 20000\n");
}

// Cut off anywhere, or with any byte changed: an error or a trace, and nothing else.
BOOST_AUTO_TEST_CASE(damaged_files_do_no_harm) {
  const std::string good = Known().Text();
  const auto read = [](const std::string& text) {
    const auto file = tool::ParseTrace(text);
    if (!file.ok()) return false;
    for (const tool::TraceStep& s : file->steps) {
      const auto path = tool::CriticalPath(*file, s);
      if (!path.ok()) continue;
      int64_t at = s.begin;
      for (const tool::PathPart& p : *path) {
        BOOST_TEST_REQUIRE(p.begin >= at);
        BOOST_TEST_REQUIRE(p.end > p.begin);
        at = p.end;
      }
      BOOST_TEST_REQUIRE(at <= std::max(s.end, s.begin));
    }
    return true;
  };
  for (size_t n = 0; n + 2 < good.size(); n += 3) BOOST_TEST_REQUIRE(!read(good.substr(0, n)), n);
  std::mt19937 random(3);
  int errors = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = good;
    for (int k = 0; k < 1 + i % 3; ++k) text[random() % text.size()] = static_cast<char>(random() % 256);
    errors += read(text) ? 0 : 1;
  }
  BOOST_TEST(errors > 300);
}

// Numbers, keys and names of one file stand in another one's place; then both are put together.
BOOST_AUTO_TEST_CASE(files_of_exchanged_parts_do_no_harm) {
  const std::string good = Known().Text();
  std::vector<std::pair<size_t, size_t>> words;  // begin and size
  for (size_t at = 0; at < good.size();) {
    const size_t begin = good.find_first_not_of(" ,:{}[]\n", at);
    if (begin == std::string::npos) break;
    at = std::min(good.find_first_of(" ,:{}[]\n", begin), good.size());
    words.emplace_back(begin, at - begin);
  }
  const std::vector<std::string> strange{"0",
                                         "-1",
                                         "1e308",
                                         "-1e-308",
                                         "9007199254740992",
                                         "9007199254740.992",
                                         "-9007199254740.992",
                                         "1e15",
                                         "-1e15",
                                         "\"\\u0000\"",
                                         "\"\\ud800\"",
                                         "null",
                                         "[]",
                                         "{}",
                                         "-",
                                         "0x10",
                                         "\"-9223372036854775808\"",
                                         "\"2305843009213693951\"",
                                         "-2305843009213693951"};
  const Folder folder;
  const std::string first = folder.Write("first.json", good);
  std::mt19937 random(7);
  int together = 0, refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text = good;
    // From the end on, so that places stay.
    std::vector<size_t> which;
    for (int k = 0; k < 1 + i % 4; ++k) which.push_back(random() % words.size());
    std::sort(which.rbegin(), which.rend());
    which.erase(std::unique(which.begin(), which.end()), which.end());
    for (const size_t w : which) {
      const auto [from, size] = words[random() % words.size()];
      text.replace(words[w].first, words[w].second,
                   random() % 2 == 0 ? strange[random() % strange.size()] : good.substr(from, size));
    }
    const std::string path = folder.Write("other.json", text);
    const auto alone = tool::ReadTrace(path);
    const auto merged = i % 2 == 0 ? tool::MergeTraces({first, path}) : tool::MergeTraces({path, first});
    if (!merged.ok()) {
      ++refused;
      BOOST_TEST_REQUIRE(Has(std::string(merged.status().message()), ".json: "), merged.status());
      continue;
    }
    // What can be put together can be read.
    BOOST_TEST_REQUIRE(alone.ok());
    ++together;
    const auto whole = tool::ParseTrace(*merged);
    BOOST_TEST_REQUIRE(whole.ok(), whole.status() << "\n" << text << *merged);
    for (const tool::TraceStep& s : whole->steps) BOOST_TEST_REQUIRE(tool::CriticalPath(*whole, s).ok());
  }
  BOOST_TEST(together > 100);
  BOOST_TEST(refused > 100);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace trace_damage_test
}  // namespace troupe
