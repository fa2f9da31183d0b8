// stress: many users of one process at once, most of them careless, some of them killed.
// docs/checks.md says what is drawn and what is checked.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/stress/faults.h"
#include "tests/stress/levels.h"
#include "tests/stress/watchdog.h"

namespace troupe::stress {
namespace {

void Usage() {
  std::printf(
      "stress [--seconds N | --minutes N] [--seed S] [--scenario K [--times N]] [--threads N] [--at-once N]\n"
      "       [--without KIND,...] [--only KIND,...] [--stop] [--verbose]\n"
      "Draws scenarios from the seed and runs them, several at once, until the time is over. Ends with 0 when there "
      "was no fault.\n"
      "--scenario repeats one scenario; --stop ends at the first fault. Kinds:\n");
  for (const auto& [kind, what] : ScenarioKinds()) std::printf("  %-10s %s\n", kind.c_str(), what.c_str());
}

bool ReadKinds(const std::string& text, std::set<std::string>* kinds) {
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string kind = text.substr(at, end - at);
    if (!ScenarioKinds().contains(kind)) return false;
    kinds->insert(kind);
    at = end + 1;
  }
  return true;
}

bool ReadOptions(int argc, char** argv, Options* o, std::string* more) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--stop") {
      o->stop = true;
    } else if (name == "--verbose") {
      o->verbose = true;
    } else {
      if (++i == argc) return false;
      const std::string value = argv[i];
      const auto number = [&] { return std::strtod(value.c_str(), nullptr); };
      if (name == "--seconds") {
        o->seconds = number();
      } else if (name == "--minutes") {
        o->seconds = number() * 60;
      } else if (name == "--seed") {
        o->seed = std::strtoull(value.c_str(), nullptr, 10);
      } else if (name == "--scenario") {
        o->scenario = static_cast<int64_t>(number());
      } else if (name == "--times") {
        o->times = static_cast<int64_t>(number());
      } else if (name == "--at-once") {
        o->at_once = std::clamp(static_cast<int>(number()), 1, 16);
      } else if (name == "--threads") {
        o->threads = static_cast<int>(number());
        *more += " --threads " + value;
      } else if (name == "--without" || name == "--only") {
        std::set<std::string> kinds;
        if (!ReadKinds(value, &kinds)) return false;
        for (const auto& [kind, what] : ScenarioKinds()) {
          if (kinds.contains(kind) == (name == "--without")) o->without.insert(kind);
        }
        *more += " " + name + " " + value;
      } else {
        return false;
      }
    }
  }
  return true;
}

int Main(int argc, char** argv) {
  Options options;
  Repeat repeat;
  if (!ReadOptions(argc, argv, &options, &repeat.more)) {
    Usage();
    return 2;
  }
  repeat.seed = options.seed;
  SetRepeat(repeat);
  TellWhenItDies();
  Load::Get().Start();
  StartLateAnswers();
  RecordNoise();
  const TimePoint begin = Clock::now();
  int64_t next = 0, ran = 0, rounds = 0;
  {
    Watchdog watchdog;
    LevelWatch levels;
    const auto more = [&] {
      if (options.stop && NumFaults() > 0) return false;
      return options.times > 0 ? ran < options.times : MillisSince(begin) < options.seconds * 1000;
    };
    while (more()) {
      std::vector<std::thread> threads;
      // One that is repeated is alone.
      for (int i = 0; i < (options.scenario >= 0 ? 1 : options.at_once); ++i, ++ran) {
        const int64_t number = options.scenario >= 0 ? options.scenario : next++;
        threads.emplace_back([&, number] {
          if (options.verbose) std::printf("scenario %lld\n", static_cast<long long>(number));
          auto scenario = std::make_shared<Scenario>(number, options);
          watchdog.Watch(scenario);
          scenario->Run();
          watchdog.Unwatch(scenario);
        });
      }
      for (std::thread& t : threads) t.join();
      levels.RoundIsOver(options.scenario >= 0 ? options.scenario : next - 1);
      ++rounds;
    }
    levels.End();
    std::printf("stress: seed %llu, %lld scenarios in %lld rounds, %.1f s; %lld threads, %lld MB resident at the end\n",
                static_cast<unsigned long long>(options.seed), static_cast<long long>(ran),
                static_cast<long long>(rounds), MillisSince(begin) / 1000,
                static_cast<long long>(levels.last().threads), static_cast<long long>(levels.last().resident >> 20));
  }
  StopLateAnswers();
  Load::Get().Stop();
  if (NumFaults() == 0) {
    std::printf("stress: clean\n");
    return 0;
  }
  std::printf("stress: %lld faults\n%s", static_cast<long long>(NumFaults()), FaultSummary().c_str());
  return 1;
}

}  // namespace
}  // namespace troupe::stress

int main(int argc, char** argv) { return troupe::stress::Main(argc, argv); }
