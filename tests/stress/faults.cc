#include "tests/stress/faults.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>

namespace troupe::stress {
namespace {

constexpr int kPrinted = 5;  // of each kind
constexpr int kLines = 4;    // of each fault

Repeat repeat;
std::mutex mu;
std::map<std::string, std::pair<int64_t, std::string>> kinds;  // how often, and how the first one is repeated
std::atomic<int64_t> count{0};
std::array<std::atomic<int64_t>, 16> running;  // number + 1; 0 = free
char seed_text[64];

// Of a signal's handler: nothing that allocates.
void Write(const char* text) {
  if (write(2, text, std::strlen(text)) < 0) return;
}
void TellRunning(const char* why) {
  Write("\nstress: the program dies: ");
  Write(why);
  Write(seed_text);
  for (const auto& r : running) {
    int64_t n = r.load();
    if (n == 0) continue;
    --n;
    char digits[24];
    char* p = digits + sizeof(digits) - 1;
    *p = 0;
    do {
      *--p = static_cast<char>('0' + n % 10);
      n /= 10;
    } while (n > 0);
    Write(" --scenario ");
    Write(p);
  }
  Write("\n");
}
void OnSignal(int signal) {
  TellRunning(signal == SIGSEGV ? "SIGSEGV" : signal == SIGABRT ? "SIGABRT" : signal == SIGBUS ? "SIGBUS" : "SIGFPE");
  std::signal(signal, SIG_DFL);
  raise(signal);
}

// A report of what a step waits for has fifty lines.
std::string Short(const std::string& what) {
  size_t end = 0;
  for (int lines = 0; lines < kLines && end != std::string::npos; ++lines) end = what.find('\n', end + 1);
  return end == std::string::npos ? what : what.substr(0, end) + "\n  ...";
}

}  // namespace

void SetRepeat(const Repeat& r) {
  repeat = r;
  std::snprintf(seed_text, sizeof(seed_text), "; while these ran: --seed %llu",
                static_cast<unsigned long long>(r.seed));
}

std::string HowToRepeat(int64_t scenario) {
  return "--seed " + std::to_string(repeat.seed) + " --scenario " + std::to_string(scenario) + repeat.more;
}

void Fault(int64_t scenario, const std::string& kind, const std::string& what) {
  count.fetch_add(1);
  std::lock_guard<std::mutex> lock(mu);
  auto& [times, first] = kinds[kind];
  if (times == 0) first = HowToRepeat(scenario);
  if (++times > kPrinted) return;
  std::printf("FAULT (%s) %s: %s\n", HowToRepeat(scenario).c_str(), kind.c_str(), Short(what).c_str());
  std::fflush(stdout);
}

int64_t NumFaults() { return count.load(); }

void Tell(const std::string& text) {
  std::printf("%s", text.c_str());
  std::fflush(stdout);
}

std::string FaultSummary() {
  std::lock_guard<std::mutex> lock(mu);
  std::string text;
  for (const auto& [kind, k] : kinds)
    text += "  " + std::to_string(k.first) + " x " + kind + ", first: " + k.second + "\n";
  return text;
}

void ScenarioRuns(int64_t scenario, bool runs) {
  int64_t from = runs ? 0 : scenario + 1;
  const int64_t to = runs ? scenario + 1 : 0;
  for (auto& r : running) {
    int64_t expected = from;
    if (r.compare_exchange_strong(expected, to)) return;
  }
}

void TellWhenItDies() {
  for (const int s : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE}) std::signal(s, OnSignal);
}

}  // namespace troupe::stress
