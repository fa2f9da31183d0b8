// A save beside steps, whose thread has no caller that could catch anything: each allocation fails
// in turn, and the save ends with a status.
#include <atomic>
#include <future>

#include "tests/checkpoint/held_files.h"
#include "tests/common/check_ok.h"
#include "tests/no_memory/each_allocation.h"
#include "troupe/train/saver.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

BOOST_AUTO_TEST_SUITE(saves)

BOOST_AUTO_TEST_CASE(a_save_beside_steps_ends_with_a_status) {
  static std::atomic<long> after{-1};  // file systems stay registered
  // On the thread of the save, from its first file on.
  REQUIRE_OK(files::RegisterFileSystem("scarce", std::make_shared<HeldFiles>([](auto op, const std::string&) {
                                         if (op != "OpenToWrite") return;
                                         const long k = after.exchange(-1);
                                         if (k >= 0) testing::Fail(k, 1);
                                       })));
  const Scope root = Scope::NewRootScope();
  const Variable v(root.WithOpName("v"), Const(root, 1.0f, TensorShape({20})));
  const Operation init = GlobalVariablesInitializer(root);
  train::Saver saver(root);
  REQUIRE_OK(root.status());
  const auto session = Session::Create({}).value();
  REQUIRE_OK(session->Extend(*root.graph()));
  REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  testing::AtEachAllocation(
      [&](long k) {
        std::promise<std::pair<absl::Status, long>> ended;
        after = k;
        saver.SaveAsync(*session, "scarce://m", {}, [&](const absl::StatusOr<std::string>& saved) {
          const long failed = testing::Failed();
          testing::FailNone();
          ended.set_value({saved.status(), failed});
        });
        const auto [status, failed] = ended.get_future().get();
        BOOST_TEST((status.ok() || failed > 0), status);
        saver.WaitForSaves();
        return failed > 0;
      },
      /*at_most=*/2000);
  // The last one had all the memory.
  REQUIRE_OK(saver.Restore(*session, "scarce://m"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace troupe
