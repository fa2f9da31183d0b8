// A save beside steps, whose thread has no caller that could catch anything: each allocation fails
// in turn, and the save ends with a status.
#include <atomic>
#include <future>

#include "actors/train/meta_graph.h"
#include "tests/checkpoint/held_files.h"
#include "tests/common/check_ok.h"
#include "tests/no_memory/each_allocation.h"
#include "troupe/train/saver.h"
#include "troupe/troupe.h"

namespace troupe {
namespace saves_test {

// A session with a variable, and what saves it.
struct Model {
  explicit Model(const train::SaverOptions& options = {}) : saver(root, options) {
    const Operation init = GlobalVariablesInitializer(root);
    REQUIRE_OK(root.status());
    REQUIRE_OK(session->Extend(*root.graph()));
    REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  }
  Scope root = Scope::NewRootScope();
  Variable v{root.WithOpName("v"), Const(root, 1.0f, TensorShape({20}))};
  train::Saver saver;
  std::unique_ptr<Session> session = Session::Create({}).value();
};

BOOST_AUTO_TEST_SUITE(saves)

BOOST_AUTO_TEST_CASE(a_save_beside_steps_ends_with_a_status) {
  static std::atomic<long> after{-1};  // file systems stay registered
  // On the thread of the save, from its first file on.
  REQUIRE_OK(files::RegisterFileSystem("scarce", std::make_shared<HeldFiles>([](auto op, const std::string&) {
                                         if (op != "OpenToWrite") return;
                                         const long k = after.exchange(-1);
                                         if (k >= 0) testing::Fail(k, 1);
                                       })));
  Model m;
  testing::AtEachAllocation(
      [&](long k) {
        std::promise<std::pair<absl::Status, long>> ended;
        after = k;
        m.saver.SaveAsync(*m.session, "scarce://m", {}, [&](const absl::StatusOr<std::string>& saved) {
          const long failed = testing::Failed();
          testing::FailNone();
          ended.set_value({saved.status(), failed});
        });
        const auto [status, failed] = ended.get_future().get();
        BOOST_TEST((status.ok() || failed > 0), status);
        m.saver.WaitForSaves();
        return failed > 0;
      },
      /*at_most=*/2000);
  // The last one had all the memory.
  REQUIRE_OK(m.saver.Restore(*m.session, "scarce://m"));
}

// What the caller's own thread does for a save, and all of a save that it waits for. No
// temporary file of a save that has failed is there after the next.
BOOST_AUTO_TEST_CASE(what_begins_a_save_ends_with_a_status) {
  Model m;
  REQUIRE_OK(files::RegisterFileSystem("scarcebegin", std::make_shared<HeldFiles>([](auto, const std::string&) {})));
  const std::string path = "scarcebegin://d/m";
  const auto trial = [&](long k, auto&& save) {
    absl::Status status;
    long failed = 0;
    {
      const testing::Failing no_memory(k, 1);
      status = save();
      failed = testing::Failing::failed();
    }
    BOOST_TEST((status.ok() || failed > 0), status);
    m.saver.WaitForSaves();
    REQUIRE_OK(m.saver.Save(*m.session, path).status());
    const std::vector<std::string> names = files::List("scarcebegin://d").value();
    const std::string all = StrJoin(names, " ");
    BOOST_TEST(all.find("tempstate") == std::string::npos, "allocation " << k << ": " << all);
    return failed > 0;
  };
  testing::AtEachAllocation([&](long k) { return trial(k, [&] { return m.saver.Save(*m.session, path).status(); }); },
                            /*at_most=*/2000);
  testing::AtEachAllocation(
      [&](long k) {
        std::promise<absl::Status> ended;
        const bool failed = trial(k, [&] {
          m.saver.SaveAsync(*m.session, path, {}, [&](const auto& saved) { ended.set_value(saved.status()); });
          return absl::OkStatus();
        });
        const absl::Status status = ended.get_future().get();
        BOOST_TEST((status.ok() || failed), status);
        return failed;
      },
      /*at_most=*/2000);
  REQUIRE_OK(m.saver.Restore(*m.session, path));
}

// Whatever fails behind the last file of a save: when it has been made again, the checkpoint before
// it is deleted.
BOOST_AUTO_TEST_CASE(no_old_checkpoint_is_forgotten) {
  static std::atomic<long> after{-1};
  REQUIRE_OK(files::RegisterFileSystem("scarcelist", std::make_shared<HeldFiles>([](auto op, const std::string& path) {
                                         if (op != "Renamed" || !path.ends_with(".index")) return;
                                         const long k = after.exchange(-1);
                                         if (k >= 0) testing::Fail(k, 1);
                                       })));
  Model m({.max_to_keep = 1});
  testing::AtEachAllocation(
      [&](long k) {
        const std::string path = StrCat("scarcelist://d/a_checkpoint_with_a_long_name_", k);
        after = k;
        const absl::Status saved = m.saver.Save(*m.session, path).status();
        const long failed = testing::Failed();
        testing::FailNone();
        BOOST_REQUIRE(after == -1);
        BOOST_TEST((saved.ok() || failed > 0), saved);
        // Again: what could not be deleted is deleted after the next save.
        REQUIRE_OK(m.saver.Save(*m.session, path).status());
        int checkpoints = 0;
        const std::vector<std::string> names = files::List("scarcelist://d").value();
        for (const std::string& name : names) checkpoints += name.ends_with(".index");
        BOOST_TEST(checkpoints == 1, "allocation " << k << ": " << StrJoin(names, " "));
        BOOST_TEST(CheckpointExists(path));
        BOOST_TEST(StrJoin(names, " ").find("tempstate") == std::string::npos, "allocation " << k);
        return failed > 0;
      },
      /*at_most=*/2000);
}

// Wherever a sharded save fails: the folder of its parts is gone after the next, and where there
// was memory again at once, so are temporary files.
BOOST_AUTO_TEST_CASE(no_part_is_forgotten) {
  static std::atomic<long> after{-1}, count{0};
  REQUIRE_OK(files::RegisterFileSystem("scarceparts", std::make_shared<HeldFiles>([](auto op, const std::string&) {
                                         if (op != "OpenToWrite") return;
                                         const long k = after.exchange(-1);
                                         if (k >= 0) testing::Fail(k, count);
                                       })));
  Model m({.sharded = true});
  long left = 0;  // trials after which a folder of parts was there
  for (const long fails : {1, 200}) {
    count = fails;
    testing::AtEachAllocation(
        [&](long k) {
          after = k;
          const absl::Status saved = m.saver.Save(*m.session, "scarceparts://d/m").status();
          const long failed = testing::Failed();
          testing::FailNone();
          BOOST_REQUIRE(after == -1);
          BOOST_TEST((saved.ok() || failed > 0), saved);
          std::vector<std::string> names = files::List("scarceparts://d").value();
          left += StrJoin(names, " ").find("_temp_") != std::string::npos;
          REQUIRE_OK(m.saver.Save(*m.session, "scarceparts://d/m").status());
          names = files::List("scarceparts://d").value();
          const std::string all = StrJoin(names, " ");
          BOOST_TEST(all.find("_temp_") == std::string::npos, "allocation " << k << ": " << all);
          if (fails == 1) BOOST_TEST(all.find("tempstate") == std::string::npos, "allocation " << k << ": " << all);
          return failed > 0;
        },
        /*at_most=*/2000);
  }
  BOOST_TEST(left > 0);
}

// The index gets its name, but there is no memory to hear of it: the checkpoint is there.
BOOST_AUTO_TEST_CASE(what_has_its_name_stays_whole) {
  static std::atomic<long> count{-1};
  REQUIRE_OK(files::RegisterFileSystem("scarcenames", std::make_shared<HeldFiles>([](auto op, const std::string& path) {
                                         if (op != "Renamed" || !path.ends_with(".index")) return;
                                         const long n = count.exchange(-1);
                                         if (n < 0) return;
                                         if (n > 0) testing::Fail(0, n);
                                         throw std::bad_alloc();
                                       })));
  for (const bool sharded : {false, true}) {
    Model m({.sharded = sharded});
    const std::string path = StrCat("scarcenames://", sharded ? "s" : "p", "/m");
    REQUIRE_OK(m.saver.Save(*m.session, path).status());
    for (long n = 0; n < 12; ++n) {
      count = n;
      BOOST_TEST(!m.saver.Save(*m.session, path).ok());
      testing::FailNone();
      BOOST_REQUIRE(count == -1);
      BOOST_TEST_INFO("sharded " << sharded << ", " << n << " more");
      CHECK_OK(m.saver.Restore(*m.session, path));
    }
  }
}

// What a save with SaveOptions.graph writes beside the values.
BOOST_AUTO_TEST_CASE(the_bytes_of_a_graph_are_made_or_not) {
  const Model m;
  testing::AtEachAllocation(
      [&](long k) {
        return testing::Throws(k, [&] { REQUIRE_OK(train::MetaGraphBytes(*m.root.graph(), &m.saver).status()); });
      },
      /*at_most=*/20'000, /*dense=*/20'000);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace saves_test
}  // namespace troupe
