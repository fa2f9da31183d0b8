// A save that was given up goes on in the background: it neither replaces, nor mixes with, nor
// deletes what a later save to the same prefix has written.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <future>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "tests/checkpoint/held_files.h"
#include "tests/common/check_ok.h"
#include "troupe/checkpoint.h"
#include "troupe/train/saver.h"
#include "troupe/troupe.h"

namespace troupe {
namespace late_saves_test {

bool Has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::unique_ptr<CheckpointWriter> WriterOf(const std::string& prefix, float value) {
  auto writer = CheckpointWriter::Create(prefix);
  REQUIRE_OK(writer.status());
  REQUIRE_OK((*writer)->Add("v", Tensor::Scalar(value)));
  return *std::move(writer);
}
float ValueIn(const std::string& prefix, const std::string& name = "v") {
  const auto reader = CheckpointReader::Open(prefix);
  if (!reader.ok()) return -1;
  const auto value = (*reader)->Read(name);
  return value.ok() ? value->scalar<float>() : -2;
}
std::string NamesIn(const std::string& folder) { return StrJoin(*files::List(folder), " "); }

BOOST_AUTO_TEST_CASE(the_newest_writer_of_a_prefix_counts) {
  auto old = WriterOf("mem://late/m", 1), young = WriterOf("mem://late/m", 2);
  REQUIRE_OK(young->Finish());
  BOOST_TEST(absl::IsAborted(old->Finish()));
  old.reset();
  young.reset();
  BOOST_TEST(ValueIn("mem://late/m") == 2);
  BOOST_TEST(NamesIn("mem://late") == "m.data-00000-of-00001 m.index");
  // Also when the newer one gave up; and a checkpoint that was deleted does not come back.
  old = WriterOf("mem://late/m", 3);
  WriterOf("mem://late/m", 4).reset();
  BOOST_TEST(absl::IsAborted(old->Finish()));
  old = WriterOf("mem://late/m", 5);
  REQUIRE_OK(DeleteCheckpoint("mem://late/m"));
  BOOST_TEST(absl::IsAborted(old->Finish()));
  old.reset();
  BOOST_TEST(NamesIn("mem://late") == "");
  REQUIRE_OK(WriterOf("mem://late/m", 6)->Finish());
  BOOST_TEST(ValueIn("mem://late/m") == 6);
}

BOOST_AUTO_TEST_CASE(a_writer_asks_before_each_name_whether_it_is_cancelled) {
  REQUIRE_OK(WriterOf("mem://asks/m", 1)->Finish());
  for (int yes_at = 1; yes_at <= 2; ++yes_at) {
    int asked = 0;
    BOOST_TEST(absl::IsCancelled(WriterOf("mem://asks/m", 2)->Finish([&] { return ++asked == yes_at; })));
    BOOST_TEST(ValueIn("mem://asks/m") == 1);
    BOOST_TEST(NamesIn("mem://asks") == "m.data-00000-of-00001 m.index");
  }
  int asked = 0;
  REQUIRE_OK(WriterOf("mem://asks/part", 3)->Finish());
  MergeOptions options;
  options.cancelled = [&] { return ++asked == 3; };  // when the data has moved
  BOOST_TEST(absl::IsCancelled(MergeCheckpoints({"mem://asks/part"}, "mem://asks/m", options)));
  BOOST_TEST(ValueIn("mem://asks/m") == 1);
  BOOST_TEST(ValueIn("mem://asks/part") == 3);  // and has moved back
  REQUIRE_OK(MergeCheckpoints({"mem://asks/part"}, "mem://asks/m"));
  BOOST_TEST(ValueIn("mem://asks/m") == 3);
}

// Held at each operation that a disk may be slow at, while another one writes the same prefix.
BOOST_AUTO_TEST_CASE(a_writer_that_is_held_up_anywhere_harms_no_later_one) {
  int held = 0;
  for (int at = 1;; ++at) {
    const std::string scheme = StrCat("held", at), prefix = scheme + "://d/m";
    FileGate gate;
    std::promise<void> reached;
    std::atomic<int> count{-1000};
    REQUIRE_OK(files::RegisterFileSystem(scheme, std::make_shared<HeldFiles>([&](std::string_view op, const auto&) {
                                           if ((op != "Sync" && op != "SyncDirectory") || ++count != at) return;
                                           reached.set_value();
                                           gate.Wait();
                                         })));
    REQUIRE_OK(WriterOf(prefix, 0)->Finish());
    auto old = WriterOf(prefix, 1);
    count = 0;
    auto end = std::async(std::launch::async, [&] { return old->Finish(); });
    auto at_gate = reached.get_future();
    while (at_gate.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready &&
           end.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    }
    const bool was_held = end.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
    count = -1000;
    CHECK_OK(WriterOf(prefix, 2)->Finish());
    BOOST_TEST(ValueIn(prefix) == 2);
    gate.Open();
    (void)end.get();
    old.reset();
    BOOST_TEST(ValueIn(prefix) == 2, "held at " << at);
    CHECK_OK(WriterOf(prefix, 3)->Finish());
    BOOST_TEST(ValueIn(prefix) == 3);
    // No data stays that no index names.
    BOOST_TEST(files::List(scheme + "://d")->size() == 2u, NamesIn(scheme + "://d"));
    // What the file system refers to goes.
    count = -1'000'000;
    if (!was_held) break;
    ++held;
  }
  BOOST_TEST(held == 4);  // data, index, folder, folder
}

// A rename whose error does not tell the truth: the index has its name, and its data stay.
BOOST_AUTO_TEST_CASE(an_index_that_was_renamed_with_an_error_keeps_its_data) {
  class Lying : public HeldFiles {
   public:
    Lying() : HeldFiles([](std::string_view, const std::string&) {}) {}
    absl::Status Rename(const std::string& from, const std::string& to) override {
      const absl::Status renamed = HeldFiles::Rename(from, to);
      return lies && to.ends_with(".index") ? absl::UnavailableError("the answer was lost") : renamed;
    }
    bool lies = false;
  };
  const auto disk = std::make_shared<Lying>();
  REQUIRE_OK(files::RegisterFileSystem("lying", disk));
  REQUIRE_OK(WriterOf("lying://d/m", 1)->Finish());
  disk->lies = true;
  BOOST_TEST(absl::IsUnavailable(WriterOf("lying://d/m", 2)->Finish()));
  BOOST_TEST(ValueIn("lying://d/m") == 2);
}

struct Model {
  explicit Model(const train::SaverOptions& options) {
    const std::string device = "/job:localhost/replica:0/task:0/device:CPU:";
    v = Variable(root.WithOpName("v").WithDevice(device + "0"), 0.0f);
    u = Variable(root.WithOpName("u").WithDevice(device + "1"), 0.0f);
    const Operation init = GlobalVariablesInitializer(root);
    saver = train::Saver(root, options);
    REQUIRE_OK(root.status());
    SessionOptions o;
    o.runtime_options.cpu_devices = 2;
    o.runtime_options.threads = 2;
    session = *Session::Create(o);
    REQUIRE_OK(session->Extend(*root.graph()));
    REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  }
  void Set(float value) {
    REQUIRE_OK(session->Set(v, Tensor::Scalar(value)));
    REQUIRE_OK(session->Set(u, Tensor::Scalar(value)));
  }
  // As an imported graph saves whose folder of parts has one name for good.
  std::future<absl::Status> Start(const std::string& path, const CancellationToken& token) {
    auto done = std::make_shared<std::promise<absl::Status>>();
    RunOptions options;
    options.cancellation = &token;
    session->RunAsync(options, {{saver.filename_tensor(), Tensor::Scalar(path)}}, {saver.save_tensor()}, {},
                      [done](absl::Status s, std::vector<Tensor>) { done->set_value(std::move(s)); });
    return done->get_future();
  }
  Scope root = Scope::NewRootScope();
  Variable v, u;
  train::Saver saver;
  std::unique_ptr<Session> session;
};

BOOST_AUTO_TEST_CASE(parts_of_two_saves_are_not_mixed) {
  // The first save's part 0 waits before it is synced, until the second save has its own; part 1 of
  // the second one waits until the first one's part 0 has come to its end.
  static FileGate first, second;
  static std::promise<void> first_held, first_over, second_has_part_0;
  static std::atomic<int> syncs_0{0}, syncs_1{0}, ends_0{0}, indexes_0{0};
  REQUIRE_OK(
      files::RegisterFileSystem("parts", std::make_shared<HeldFiles>([](std::string_view op, const std::string& path) {
                                  const bool part_0 = Has(path, "part-00000"), data = Has(path, ".data.tempstate");
                                  if (op == "Sync" && data && part_0 && ++syncs_0 == 1) {
                                    first_held.set_value();
                                    first.Wait();
                                  }
                                  if (op == "Sync" && data && Has(path, "part-00001") && ++syncs_1 == 2) second.Wait();
                                  // A writer's end: its index has its name, or its temporary data
                                  // are deleted.
                                  const bool index = op == "Renamed" && part_0 && path.ends_with(".index");
                                  if (index && ++indexes_0 == 1) second_has_part_0.set_value();
                                  if ((index || (op == "Delete" && part_0 && data)) && ++ends_0 == 2)
                                    first_over.set_value();
                                })));
  Model m({.sharded = true});
  m.Set(1);
  CancellationToken token, none;
  auto a = m.Start("parts://d/m", token);
  first_held.get_future().wait();
  token.Cancel();
  BOOST_TEST(absl::IsCancelled(a.get()));
  m.Set(2);
  auto b = m.Start("parts://d/m", none);
  second_has_part_0.get_future().wait();
  first.Open();
  first_over.get_future().wait();
  second.Open();
  REQUIRE_OK(b.get());
  BOOST_TEST(ValueIn("parts://d/m", "v") == 2);
  BOOST_TEST(ValueIn("parts://d/m", "u") == 2);
  // The folder of the parts goes, too, unless the late save still had a file there.
  std::vector<std::string> names = *files::List("parts://d");
  std::erase_if(names, [](const std::string& name) { return name.starts_with("m_temp_"); });
  BOOST_TEST(StrJoin(names, " ") == "m.data-00000-of-00002 m.data-00001-of-00002 m.index");
}

BOOST_AUTO_TEST_CASE(a_save_whose_step_was_cancelled_gives_no_names) {
  static FileGate gate;
  static std::promise<void> held, over;
  static std::atomic<int> ends{0};
  REQUIRE_OK(files::RegisterFileSystem(
      "givenup", std::make_shared<HeldFiles>([](std::string_view op, const std::string& path) {
        if (op == "Sync" && Has(path, ".data.tempstate")) {
          held.set_value();
          gate.Wait();
        }
        if ((op == "Renamed" && path.ends_with(".index")) || (op == "Delete" && Has(path, ".data.tempstate"))) {
          if (++ends == 1) over.set_value();
        }
      })));
  Model m({});
  m.Set(1);
  CancellationToken token;
  auto a = m.Start("givenup://d/m", token);
  held.get_future().wait();
  token.Cancel();
  BOOST_TEST(absl::IsCancelled(a.get()));
  gate.Open();
  over.get_future().wait();
  BOOST_TEST(!CheckpointExists("givenup://d/m"));
}

// The last one counts, however their threads run; and no more than eight hold values in memory.
BOOST_AUTO_TEST_CASE(saves_beside_steps_are_written_in_the_order_of_their_values) {
  static std::atomic<FileGate*> gate{nullptr};
  static std::atomic<int> begun{0};
  REQUIRE_OK(files::RegisterFileSystem("inorder",
                                       std::make_shared<HeldFiles>([](std::string_view op, const std::string& path) {
                                         if (op != "OpenToWrite" || !Has(path, ".index")) return;
                                         ++begun;
                                         if (FileGate* const closed = gate) closed->Wait();
                                       })));
  Model m({});
  for (int round = 0; round < 5; ++round) {
    FileGate closed;
    gate = &closed;
    begun = 0;
    std::mutex mu;
    std::vector<int> ended;
    const auto save = [&](int value) {
      m.Set(static_cast<float>(value));
      m.saver.SaveAsync(*m.session, "inorder://d/m", {}, [&, value](absl::StatusOr<std::string> path) {
        BOOST_CHECK_MESSAGE(path.ok(), path.status());
        std::lock_guard<std::mutex> lock(mu);
        ended.push_back(value);
      });
    };
    for (int i = 1; i <= 8; ++i) save(i);
    std::promise<void> ninth_begun;
    std::atomic<bool> ninth_over{false};
    std::thread ninth([&] {
      ninth_begun.set_value();
      save(9);
      ninth_over = true;
    });
    ninth_begun.get_future().wait();
    BOOST_TEST(!ninth_over);
    gate = nullptr;
    closed.Open();
    ninth.join();
    // A Save takes its place behind them, too.
    m.Set(10);
    REQUIRE_OK(m.saver.Save(*m.session, "inorder://d/m").status());
    m.saver.WaitForSaves();
    BOOST_TEST(ValueIn("inorder://d/m") == 10);
    std::lock_guard<std::mutex> lock(mu);
    std::sort(ended.begin(), ended.end());
    BOOST_TEST(ended == (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9}), boost::test_tools::per_element());
  }
}

// A callback that saves is answered, and blocks no save behind it: its own has left the row.
BOOST_AUTO_TEST_CASE(a_callback_that_saves_is_answered) {
  Model m({});
  m.Set(1);
  std::promise<absl::Status> both;
  m.saver.SaveAsync(*m.session, "mem://again/m", {}, [&](absl::StatusOr<std::string> path) {
    BOOST_CHECK_MESSAGE(path.ok(), path.status());
    m.saver.SaveAsync(*m.session, "mem://again/n", {},
                      [&](absl::StatusOr<std::string> second) { both.set_value(second.status()); });
  });
  // It would wait for actors on a thread that must not block.
  const absl::Status second = both.get_future().get();
  BOOST_TEST(absl::IsFailedPrecondition(second), second);
  m.saver.WaitForSaves();
  REQUIRE_OK(m.saver.Save(*m.session, "mem://again/n").status());
  BOOST_TEST(ValueIn("mem://again/n") == 1);
}

BOOST_AUTO_TEST_CASE(each_sharded_save_has_a_folder_of_its_own) {
  static std::set<std::string> folders;
  static std::mutex mu;
  static std::atomic<bool> full{false};
  REQUIRE_OK(files::RegisterFileSystem("folders",
                                       std::make_shared<HeldFiles>([](std::string_view op, const std::string& path) {
                                         std::lock_guard<std::mutex> lock(mu);
                                         if (op == "OpenToWrite" && Has(path, "_temp_"))
                                           folders.insert(files::DirectoryOf(path));
                                         if (op == "Sync" && full && Has(path, "part-00001"))
                                           throw std::runtime_error("full");
                                       })));
  Model m({.sharded = true});
  for (int i = 1; i <= 3; ++i) REQUIRE_OK(m.saver.Save(*m.session, "folders://d/m").status());
  BOOST_TEST(folders.size() == 3u);
  // Also of a MetaGraph; the parts of a save that failed go with the next one.
  REQUIRE_OK(train::WriteMetaGraph("mem://meta_of_folders", *m.root.graph(), &m.saver));
  Graph graph;
  auto imported = train::ReadMetaGraph("mem://meta_of_folders", &graph);
  REQUIRE_OK(imported.status());
  for (int i = 1; i <= 2; ++i) REQUIRE_OK(imported->Save(*m.session, "folders://d/m").status());
  BOOST_TEST(folders.size() == 5u);
  full = true;
  BOOST_TEST(!imported->Save(*m.session, "folders://d/m").ok());
  full = false;
  REQUIRE_OK(imported->Save(*m.session, "folders://d/m").status());
  for (int tries = 0; tries < 100 && Has(NamesIn("folders://d"), "_temp_"); ++tries) {
    REQUIRE_OK(imported->Save(*m.session, "folders://d/m").status());
  }
  BOOST_TEST(!Has(NamesIn("folders://d"), "_temp_"), NamesIn("folders://d"));
}

// All is saved: what could not be deleted is no error, and goes later.
BOOST_AUTO_TEST_CASE(an_old_checkpoint_that_cannot_be_deleted_goes_later) {
  class Keeping : public HeldFiles {
   public:
    Keeping() : HeldFiles([](std::string_view, const std::string&) {}) {}
    absl::Status Delete(const std::string& path) override {
      return keeps && path.ends_with(".index") ? absl::UnavailableError("not now") : HeldFiles::Delete(path);
    }
    bool keeps = true;
  };
  const auto disk = std::make_shared<Keeping>();
  REQUIRE_OK(files::RegisterFileSystem("keeping", disk));
  Model m({.max_to_keep = 1});
  for (int i = 1; i <= 3; ++i) REQUIRE_OK(m.saver.Save(*m.session, "keeping://d/m", i).status());
  BOOST_TEST(StrJoin(m.saver.checkpoints(), " ") == "keeping://d/m-3");
  BOOST_TEST(CheckpointExists("keeping://d/m-1"));
  disk->keeps = false;
  REQUIRE_OK(m.saver.Save(*m.session, "keeping://d/m", 4).status());
  for (int i = 1; i <= 4; ++i) BOOST_TEST(CheckpointExists(StrCat("keeping://d/m-", i)) == (i == 4));
}

}  // namespace late_saves_test
}  // namespace troupe
