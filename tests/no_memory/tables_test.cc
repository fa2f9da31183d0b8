// Tables that outlive the memory shortage in which somebody put an entry into them: each allocation
// fails in turn. The table is as before, and takes the entry when there is memory again.
#include <algorithm>
#include <map>
#include <random>

#include "actors/session/partial_runs.h"
#include "actors/signature/signature.h"
#include "actors/signature/signature_cache.h"
#include "actors/step/partial_step.h"
#include "actors/supervision/supervisor.h"
#include "graph/core/hash_map.h"
#include "graph/passes/session_groups.h"
#include "kernels/pass_support.h"
#include "kernels/table/table.h"
#include "tests/cast/asked.h"
#include "tests/no_memory/each_allocation.h"

namespace troupe {
namespace tables_test {

using testing::AtEachAllocation;
using testing::Failing;
using testing::Throws;

BOOST_AUTO_TEST_SUITE(tables)

BOOST_AUTO_TEST_CASE(a_hash_map_is_as_it_was) {
  const std::string long_name = "a name that is too long for the inside of a string, number ";
  HashMap<std::string, std::string> map;
  for (int i = 0; i < 60; ++i) {
    const std::string key = StrCat(long_name, i);
    AtEachAllocation([&](long k) {
      const bool thrown = Throws(k, [&] { map[key] = key; });
      if (thrown && map.contains(key)) map.erase(key);  // the entry was made, and its value was not
      BOOST_TEST(map.size() == static_cast<size_t>(thrown ? i : i + 1));
      for (const auto& [name, value] : map) BOOST_TEST(name == value);
      return thrown;
    });
  }
}

// Beside a map of the standard library's, through insertions, of which some find no memory at
// first, and through erasures.
BOOST_AUTO_TEST_CASE(a_hash_map_has_what_was_put_into_it) {
  std::minstd_rand random(7);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  for (const uint32_t keys : {5u, 12u, 300u, 5000u}) {
    HashMap<std::string, uint32_t> map;
    std::map<std::string, uint32_t> model;
    HashSet<uint32_t> set;
    for (uint32_t i = 0; i < 6 * keys; ++i) {
      const uint32_t n = below(keys);
      const std::string key = StrCat("a key that takes memory of its own: ", n);
      // More goes than comes in every other third.
      if (below(10) < (i / keys % 2 == 0 ? 7u : 2u)) {
        const bool is_new = model.try_emplace(key, i).second;
        const long fails = below(4);
        bool added = false;
        if (Throws(fails, [&] { added = map.try_emplace(key, i).second; })) {
          BOOST_TEST(!map.contains(key));
          added = map.try_emplace(key, i).second;
        }
        BOOST_TEST(added == is_new);
        set.insert(n);
      } else {
        BOOST_TEST(map.erase(key) == model.erase(key));
        set.erase(n);
      }
      BOOST_TEST(map.size() == model.size());
      BOOST_TEST(set.contains(n) == model.contains(key));
      const auto it = map.find(key);
      BOOST_TEST((it != map.end()) == model.contains(key));
      if (it != map.end()) BOOST_TEST(it->second == model.at(key));
    }
    for (const auto& [key, value] : model) BOOST_TEST(map.at(key) == value);
    BOOST_TEST((std::map<std::string, uint32_t>(map.begin(), map.end()) == model));
    HashMap<std::string, uint32_t> copy = map;
    // Each is seen once, whichever of them go.
    uint32_t seen = 0, gone = 0;
    for (auto it = copy.begin(); it != copy.end(); ++seen) {
      if (it->second % 3 == 0) {
        gone += static_cast<uint32_t>(model.erase(it->first));
        it = copy.erase(it);
      } else {
        ++it;
      }
    }
    BOOST_TEST(seen == map.size());
    BOOST_TEST(copy.size() + gone == map.size());
    BOOST_TEST((std::map<std::string, uint32_t>(copy.begin(), copy.end()) == model));
    for (const auto& [key, value] : model) BOOST_TEST(copy.at(key) == value);
    copy.clear();
    BOOST_TEST((copy.empty() && !copy.contains("a") && copy.begin() == copy.end()));
    copy = map;
    BOOST_TEST(copy.size() == map.size());
  }
}

BOOST_AUTO_TEST_CASE(entries_stand_in_the_order_in_which_they_came) {
  HashMap<int, int> map;
  for (int i = 0; i < 1000; ++i) map[(i * 7919) % 1000] = i;
  int next = 0;
  for (const auto& [key, value] : map) BOOST_TEST((key == (next * 7919) % 1000 && value == next++));
  map.erase(0);
  BOOST_TEST(map.begin()->second == 999);  // the last one took its place
}

// A supervisor's children on a stage.
struct Family {
  Family() {
    stage.Inline([&] {
      list = std::make_shared<Children>(directory);
      list->Spawn(stage.system(), Spec("first"));
      supervisor = SpawnSupervisor(stage.system(), list);
    });
  }
  ~Family() {
    stage.Inline([&] { caf::anon_send_exit(supervisor, caf::exit_reason::user_shutdown); });
  }
  caf::actor Spawn() {
    return stage.system().spawn([](caf::event_based_actor*, int) -> caf::behavior { return {[](int) {}}; }, 0);
  }
  ChildSpec Spec(std::string name) {
    ChildSpec spec;
    spec.name = std::move(name);
    spec.policy.jitter = 0;
    spec.spawn = [this](caf::actor_system&, uint64_t) { return Spawn(); };
    return spec;
  }
  // Kills the child: it is there again after its delay.
  bool ComesBack(const std::string& name) {
    const caf::actor before = directory->Find(name);
    stage.Kill(before);
    stage.Play();
    const bool down = !directory->Find(name);
    stage.Advance(std::chrono::milliseconds(1));
    stage.Play();
    return down && directory->Find(name) && directory->Find(name) != before;
  }
  Stage stage;
  const std::shared_ptr<Directory> directory = std::make_shared<Directory>();
  std::shared_ptr<Children> list;
  caf::actor supervisor;
};

BOOST_AUTO_TEST_CASE(a_child_is_added_or_is_not) {
  const std::string name = "a child whose name is long, so that each copy of it takes memory";
  AtEachAllocation([&](long k) {
    Family f;
    const caf::actor child = f.Spawn();
    ChildSpec spec = f.Spec(name);
    const bool thrown = Throws(k, [&] { f.list->Adopt(std::move(spec), child); });
    if (thrown) {
      BOOST_TEST(f.list->size() == 1u);
      BOOST_TEST(!f.directory->Find(name));
      BOOST_TEST(f.directory->Incarnation(name) == 0u);
      f.list->Adopt(f.Spec(name), child);
    }
    f.stage.Inline([&] { caf::anon_send(f.supervisor, add_child{name}); });
    BOOST_TEST(f.list->size() == 2u);
    BOOST_TEST((f.directory->Find(name) == child));
    BOOST_TEST(f.ComesBack(name));
    BOOST_TEST(f.ComesBack("first"));
    return thrown;
  });
}

// Of two children one dies; the supervisor hears of it without memory.
BOOST_AUTO_TEST_CASE(a_child_that_dies_without_memory_comes_back) {
  AtEachAllocation([&](long k) {
    Family f;
    f.stage.Kill(f.directory->Find("first"));
    f.stage.Deliver();
    long failed = 0;
    {
      const Failing no_memory(k, 1);
      f.stage.scheduler().run_once();
      failed = Failing::failed();
    }
    f.stage.Play();
    // Nobody restarts this supervisor, so the next one is made here.
    f.stage.Inline([&] {
      caf::anon_send_exit(f.supervisor, caf::exit_reason::kill);
      f.supervisor = SpawnSupervisor(f.stage.system(), f.list);
    });
    f.stage.Advance(std::chrono::milliseconds(5));
    f.stage.Play();
    BOOST_TEST((f.directory->Find("first") != nullptr), "allocation " << k);
    return failed > 0;
  });
}

BOOST_AUTO_TEST_CASE(a_signature_is_in_all_replicas_or_in_none) {
  const auto key = [](int i) { return StrCat("a key that is too long for the inside of a string ", i); };
  for (const int64_t bound : {0, 8}) {
    AtEachAllocation(
        [&](long k) {
          SignatureCache cache(bound);
          std::vector<std::shared_ptr<Signature>> old;
          for (int i = 0; i < 8; ++i) cache.Add(key(i), old.emplace_back(std::make_shared<Signature>()));
          const auto s = std::make_shared<Signature>();
          const bool thrown = Throws(k, [&] { cache.Add(key(8), s); });
          BOOST_TEST((cache.Find(key(8)) == s) == !thrown);
          BOOST_TEST(s.use_count() == (thrown ? 1 : 17), "allocation " << k);
          for (int i = 2; i < 8; ++i) BOOST_TEST((cache.Find(key(i)) == old[static_cast<size_t>(i)]));
          cache.Add(key(8), s);
          BOOST_TEST((cache.Find(key(8)) == s));
          return thrown;
        },
        200);
  }
}

BOOST_AUTO_TEST_CASE(a_partial_run_is_added_or_is_not) {
  for (int before = 0; before < 20; ++before) {
    AtEachAllocation([&](long k) {
      PartialRuns runs(64);
      const std::shared_ptr<PartialStep> step;
      const auto begin = [&]() -> absl::StatusOr<std::shared_ptr<PartialStep>> { return step; };
      for (int i = 0; i < before; ++i) TROUPE_REQUIRE_OK(runs.Add(begin).status());
      absl::StatusOr<std::string> handle = "";
      const std::function<absl::StatusOr<std::shared_ptr<PartialStep>>()> f = begin;
      const bool thrown = Throws(k, [&] { handle = runs.Add(f); });
      TROUPE_REQUIRE_OK(runs.Add(begin).status());
      return thrown || !handle.ok();
    });
  }
}

// The session's actor gets a call for a signature for which there is no memory, while another one
// is compiled. It is answered, and what is asked for next gets its own signature.
BOOST_AUTO_TEST_CASE(a_call_for_a_signature_waits_or_is_refused) {
  AtEachAllocation(
      [&](long k) {
        Asked p;
        p.Extend();
        std::shared_ptr<Signature> other;
        AskThen<compile_reply>(p.stage.system(), ActorOf(*p.session), compile_request{1, {"x"}, {"x"}, {}, false},
                               [&](compile_reply r) { other = std::move(r.found); });
        BOOST_TEST(p.stage.Deliver() == "session <- compile_request");
        p.AskCompile({"x"}, {"twice"});
        BOOST_TEST(p.stage.Queue() == "worker <- register_graph, session <- compile_request");
        std::rotate(p.stage.scheduler().jobs.begin(), p.stage.scheduler().jobs.begin() + 1,
                    p.stage.scheduler().jobs.end());
        long failed = 0;
        {
          const Failing no_memory(k, 1);
          p.stage.scheduler().run_once();
          failed = Failing::failed();
        }
        for (int i = 0; i < 20; ++i) {
          p.stage.Play();
          p.stage.Advance(std::chrono::milliseconds(5));
        }
        BOOST_TEST(p.said.size() > 10u, "allocation " << k);
        BOOST_TEST(p.said.find("; ") == p.said.size() - 2, p.said);
        p.said.clear();
        for (const Names& fetches : {Names{"x", "twice"}, Names{"twice"}}) {
          std::shared_ptr<Signature> found;
          AskThen<compile_reply>(p.stage.system(), ActorOf(*p.session), compile_request{1, {"x"}, fetches, {}, false},
                                 [&](compile_reply r) { found = std::move(r.found); });
          p.stage.Play();
          BOOST_REQUIRE_MESSAGE(found != nullptr, "after allocation " << k);
          BOOST_TEST(found->fetches == fetches, "after allocation " << k);
        }
        return failed > 0;
      },
      3000);
}

// The end of the runtime waits for all graphs that the worker has begun.
BOOST_AUTO_TEST_CASE(a_graph_that_cannot_be_begun_is_not_in_work) {
  AtEachAllocation(
      [&](long k) {
        Asked p;
        p.Extend();
        p.AskCompile({"x"}, {"twice"});
        BOOST_TEST(p.stage.Deliver() == "session <- compile_request");
        BOOST_TEST(p.stage.Queue() == "worker <- register_graph");
        long failed = 0;
        {
          const Failing no_memory(k, 1);
          p.stage.scheduler().run_once();
          failed = Failing::failed();
        }
        for (int i = 0; i < 20; ++i) {
          p.stage.Play();
          p.stage.Advance(std::chrono::milliseconds(5));
        }
        BOOST_TEST(p.said.size() > 10u, "allocation " << k);
        GraphsInWork& work = *p.runtime->impl()->tasks[0].in_work;
        BOOST_TEST(work.WaitUntilNone(std::chrono::milliseconds(0)), "allocation " << k);
        return failed > 0;
      },
      3000);
}

std::vector<int64_t> Numbers(const Tensor& t) {
  const auto all = t.flat<int64_t>();
  return {all.begin(), all.end()};
}

BOOST_AUTO_TEST_CASE(a_lookup_table_has_whole_entries) {
  using table::TableRequest;
  for (const DType key_type : {DType::kInt64, DType::kString}) {
    AtEachAllocation([&](long k) {
      table::TableSpec spec;
      spec.kind = "MutableHashTable";
      spec.name = "t";
      spec.key_type = key_type;
      spec.value_type = DType::kInt64;
      const auto t = table::Table::Make(spec).value();
      const auto ask = [&](TableRequest::Kind kind, const std::vector<int64_t>& keys, const std::vector<int64_t>& v) {
        auto r = std::make_shared<TableRequest>();
        r->kind = kind;
        std::vector<std::string> texts;
        for (const int64_t key : keys) texts.push_back(StrCat("a key that takes memory of its own, number ", key));
        r->keys = key_type == DType::kString ? Tensor::Vector<std::string>(texts) : Tensor::Vector<int64_t>(keys);
        r->values = Tensor::Vector<int64_t>(v);
        if (kind == TableRequest::Kind::kFind) r->found = Tensor(DType::kInt64, {static_cast<int64_t>(keys.size())});
        return r;
      };
      t->Ask(ask(TableRequest::Kind::kInsert, {1, 2, 3}, {10, 20, 30}));
      std::vector<int64_t> keys, values;
      for (int64_t i = 3; i < 40; ++i) keys.push_back(i), values.push_back(100 * i);
      const auto insert = ask(TableRequest::Kind::kInsert, keys, values);
      long failed = 0;
      try {
        const Failing no_memory(k, 1);
        t->Ask(insert);
        failed = Failing::failed();
      } catch (const std::bad_alloc&) {
        failed = 1;  // no letter
      }
      if (failed == 0) TROUPE_REQUIRE_OK(insert->status());
      const auto size = ask(TableRequest::Kind::kSize, {}, {});
      t->Ask(size);
      const auto find = ask(TableRequest::Kind::kFind, {1, 2, 4, 39}, {-1, -1, -1, -1});
      t->Ask(find);
      const std::vector<int64_t> found = Numbers(find->found);
      BOOST_TEST((found[0] == 10 && found[1] == 20), "allocation " << k);
      BOOST_TEST((found[2] == 400 || found[2] == -1), "allocation " << k);
      BOOST_TEST((found[3] == (failed > 0 ? -1 : 3900) || found[3] == 3900), "allocation " << k);
      if (key_type == DType::kInt64 && failed > 0) BOOST_TEST(size->size == 3, "allocation " << k);
      // It takes them when there is memory, and each once.
      t->Ask(ask(TableRequest::Kind::kInsert, keys, values));
      t->Ask(ask(TableRequest::Kind::kRemove, {4, 1}, {}));
      const auto after = ask(TableRequest::Kind::kFind, {1, 2, 3, 4, 39}, {-1, -1, -1, -1, -1});
      t->Ask(after);
      BOOST_TEST(Numbers(after->found) == (std::vector<int64_t>{-1, 20, 300, -1, 3900}),
                 boost::test_tools::per_element());
      const auto left = ask(TableRequest::Kind::kSize, {}, {});
      t->Ask(left);
      BOOST_TEST(left->size == 37);
      return failed > 0;
    });
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tables_test
}  // namespace troupe
