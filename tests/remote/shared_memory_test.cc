// Tensors between processes of one host, by way of memory that both can read.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "actors/same_host/shared_pool.h"
#include "tests/remote/processes.h"

namespace troupe {
namespace {

constexpr uint32_t kSlot = 4096;

// Files of pools that this process has open.
int OpenPools() {
  int pools = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    if (std::filesystem::read_symlink(entry.path(), ignored).string().starts_with("/memfd:troupe-pool")) ++pools;
  }
  return pools;
}

BOOST_AUTO_TEST_SUITE(shared_memory)

BOOST_AUTO_TEST_CASE(a_view_sees_what_is_in_the_slots) {
  const auto pool = SharedPool::Make(kSlot, 3);
  BOOST_REQUIRE(pool != nullptr);
  const auto view = SharedView::Open(pool->offer());
  BOOST_REQUIRE(view != nullptr);
  BOOST_TEST(view->IsOf(pool->offer()));
  std::vector<uint64_t> tickets;
  for (int i = 0; i < 3; ++i) {
    tickets.push_back(pool->Take());
    BOOST_REQUIRE(tickets.back() != 0u);
    std::memset(pool->At(tickets.back()), 'a' + i, kSlot);
  }
  for (size_t i = 0; i < 3; ++i) {
    const std::string bytes(view->At(tickets[i], kSlot), kSlot);
    BOOST_TEST(bytes == std::string(kSlot, static_cast<char>('a' + i)));
    BOOST_TEST(view->At(tickets[i], kSlot + 1) == nullptr);
  }
  BOOST_TEST(pool->Take() == 0u);
  BOOST_TEST(pool->taken() == 3u);
  pool->Give(tickets[1]);
  const uint64_t next = pool->Take();
  BOOST_TEST(next != 0u);
  BOOST_TEST((next != tickets[1]));
  BOOST_TEST(pool->At(next) == pool->At(tickets[1]));
  // A ticket that is given back late, or is none, frees nothing.
  pool->Give(tickets[1]);
  pool->Give(0);
  pool->Give(~uint64_t{0});
  BOOST_TEST(pool->taken() == 3u);
}

BOOST_AUTO_TEST_CASE(another_process_reads_it_and_a_view_outlives_its_pool) {
  auto pool = SharedPool::Make(kSlot, 2);
  BOOST_REQUIRE(pool != nullptr);
  const uint64_t ticket = pool->Take();
  std::memcpy(pool->At(ticket), "from one to the other", 22);
  const pool_offer offer = pool->offer();
  const pid_t child = fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0) {
    const auto view = SharedView::Open(offer);
    _exit(view != nullptr && std::strcmp(view->At(ticket, 22), "from one to the other") == 0 ? 0 : 1);
  }
  int status = -1;
  BOOST_REQUIRE(waitpid(child, &status, 0) == child);
  BOOST_TEST(status == 0);
  const auto view = SharedView::Open(offer);
  BOOST_REQUIRE(view != nullptr);
  pool = nullptr;
  BOOST_TEST(OpenPools() == 0);
  BOOST_TEST(std::strcmp(view->At(ticket, 22), "from one to the other") == 0);
  BOOST_TEST(SharedView::Open(offer) == nullptr);
}

BOOST_AUTO_TEST_CASE(wrong_offers_are_refused) {
  const auto pool = SharedPool::Make(kSlot, 2);
  BOOST_REQUIRE(pool != nullptr);
  const auto refused = [&](auto change) {
    pool_offer wrong = pool->offer();
    change(wrong);
    return SharedView::Open(wrong) == nullptr;
  };
  BOOST_TEST(!refused([](pool_offer&) {}));
  BOOST_TEST(refused([](pool_offer& o) { o.pid = 0; }));
  BOOST_TEST(refused([](pool_offer& o) { o.pid = 1; }));
  BOOST_TEST(refused([](pool_offer& o) { o.pid = ~uint64_t{0}; }));
  BOOST_TEST(refused([](pool_offer& o) { o.fd = 0; }));
  BOOST_TEST(refused([](pool_offer& o) { o.fd = ~0u; }));
  BOOST_TEST(refused([](pool_offer& o) { o.key[0] ^= 1; }));
  BOOST_TEST(refused([](pool_offer& o) { o.key[1] ^= 1; }));
  BOOST_TEST(refused([](pool_offer& o) { o.slot = 0; }));
  BOOST_TEST(refused([](pool_offer& o) { o.slot = 100; }));
  BOOST_TEST(refused([](pool_offer& o) { o.slot *= 2; }));
  BOOST_TEST(refused([](pool_offer& o) { o.slots = 0; }));
  BOOST_TEST(refused([](pool_offer& o) { o.slots = 3; }));
  BOOST_TEST(refused([](pool_offer& o) { o.slot = o.slots = ~0u << 12; }));
  // Files that are none of a pool: a reader of the second could be ended by a signal.
  for (const bool sealed : {true, false}) {
    const int fd = memfd_create(sealed ? "other" : "troupe-pool", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    BOOST_REQUIRE(fd >= 0);
    BOOST_REQUIRE(ftruncate(fd, kSlot * 3) == 0);
    BOOST_REQUIRE(pwrite(fd, pool->offer().key, 16, 0) == 16);
    if (sealed) BOOST_REQUIRE(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
    BOOST_TEST(refused([fd](pool_offer& o) { o.fd = static_cast<uint32_t>(fd); }), "sealed: " << sealed);
    close(fd);
  }
  int ends[2];
  BOOST_REQUIRE(pipe(ends) == 0);
  BOOST_TEST(refused([&](pool_offer& o) { o.fd = static_cast<uint32_t>(ends[0]); }));
  close(ends[0]);
  close(ends[1]);
  // What a machine does not give.
  BOOST_TEST(SharedPool::Make(0, 1) == nullptr);
  BOOST_TEST(SharedPool::Make(kSlot, 0) == nullptr);
  BOOST_TEST(SharedPool::Make(100, 1) == nullptr);
  BOOST_TEST(SharedPool::Make(~0u << 12, ~0u) == nullptr);
}

// 20,000 bytes each way: five pieces, of which two are under way.
struct SharedPlay : RemotePlay {
  static constexpr int64_t kFloats = 5000;
  SharedPlay() {
    for (const std::string& name : processes->names)
      Out(name).set_limits({.big = 8, .piece = 16, .under_way = 1, .share = true, .slot = kSlot, .slots = 2});
  }
  FreightOut& Out(const std::string& task) { return processes->StepsOf(task).freight().out; }
  FreightIn& In(const std::string& task) { return processes->StepsOf(task).freight().in; }
  void RunOnce(float first = 1) {
    Tensor x(DType::kFloat, TensorShape({kFloats}));
    for (int64_t i = 0; i < kFloats; ++i) x.data<float>()[i] = first + static_cast<float>(i);
    answer.reset();
    session->RunAsync({}, {{"x", x}}, {"back"}, {}, [this](absl::Status s, std::vector<Tensor> out) {
      answer = std::move(s);
      outputs = std::move(out);
    });
    stage.Play();
    BOOST_REQUIRE_MESSAGE(State() == "OK", Message());
    BOOST_REQUIRE(outputs.at(0).num_elements() == kFloats);
    int64_t wrong = 0;
    for (int64_t i = 0; i < kFloats; ++i) wrong += outputs.at(0).data<float>()[i] != -first - static_cast<float>(i);
    BOOST_TEST(wrong == 0);
    for (const std::string& name : processes->names) {
      BOOST_TEST(Out(name).size() == 0u, name);
      BOOST_TEST(Out(name).under_way() == 0, name);
      BOOST_TEST(In(name).size() == 0u, name);
    }
  }
};

BOOST_AUTO_TEST_CASE(big_tensors_pass_by_way_of_shared_memory) {
  {
    SharedPlay p;
    for (int i = 0; i < 3; ++i) p.RunOnce(static_cast<float>(i));
    for (const std::string& name : p.processes->names) {
      BOOST_TEST(p.Out(name).bytes_in_shared_memory() == 3u * 4 * SharedPlay::kFloats, name);
      BOOST_TEST(p.Out(name).bytes_in_messages() == 0u, name);
    }
    BOOST_TEST(OpenPools() == 2);  // one for each direction, whatever the number of steps
    // The process goes, and its memory with it.
    p.processes->Went(kPsTask, kMasterTask);
    p.stage.Play();
    BOOST_TEST(OpenPools() == 1);
  }
  BOOST_TEST(OpenPools() == 0);
}

BOOST_AUTO_TEST_CASE(who_cannot_read_it_gets_pieces_in_messages) {
  SharedPlay p;
  p.In(kPsTask).set_limits({.share = false});
  for (int i = 0; i < 2; ++i) p.RunOnce();
  BOOST_TEST(p.Out(kMasterTask).bytes_in_shared_memory() == 0u);
  BOOST_TEST(p.Out(kMasterTask).bytes_in_messages() == 2u * 4 * SharedPlay::kFloats);
  BOOST_TEST(p.Out(kPsTask).bytes_in_shared_memory() == 2u * 4 * SharedPlay::kFloats);
  BOOST_TEST(OpenPools() == 1);  // that for nobody is gone
}

BOOST_AUTO_TEST_CASE(so_many_processes_get_such_memory_and_no_more) {
  SharedPlay p;
  p.Out(kMasterTask).set_limits({.big = 8, .piece = 4096, .slot = kSlot, .slots = 2, .pools = 0});
  p.RunOnce();
  BOOST_TEST(p.Out(kMasterTask).bytes_in_shared_memory() == 0u);
  BOOST_TEST(p.Out(kMasterTask).bytes_in_messages() == 4u * SharedPlay::kFloats);
}

// A worker dies with pieces under way; the tickets that it had are worth nothing afterwards.
BOOST_AUTO_TEST_CASE(a_worker_that_dies_costs_no_slot) {
  for (int dies_at = 1; dies_at < 6; ++dies_at) {
    SharedPlay p;
    p.RunOnce();
    Tensor x(DType::kFloat, TensorShape({SharedPlay::kFloats}));
    std::fill_n(x.data<float>(), SharedPlay::kFloats, 2.0f);
    p.answer.reset();
    p.session->RunAsync({}, {{"x", x}}, {"back"}, {},
                        [&](absl::Status s, std::vector<Tensor>) { p.answer = std::move(s); });
    for (int pieces = 0; pieces < dies_at;) {
      const std::string step = p.stage.Deliver();
      BOOST_REQUIRE(!step.empty());
      pieces += step.find("freight_piece") != std::string::npos;
    }
    p.processes->Went(kPsTask, kMasterTask);
    p.processes->Went(kMasterTask, kPsTask);
    p.stage.Play();
    BOOST_TEST(p.State() != "running");
    p.processes->IntroduceAll();
    p.stage.Play();
    p.RunOnce(7);
    p.RunOnce(8);
  }
}

// A piece whose bytes are to be in memory that was never offered, or not in a slot of it.
BOOST_AUTO_TEST_CASE(pieces_that_lie_nowhere_are_refused) {
  Stage stage;
  constexpr uint64_t kMine = 900, kFrom = 901;
  const auto pool = SharedPool::Make(kSlot, 2);
  BOOST_REQUIRE(pool != nullptr);
  Relay relay(&stage, nullptr);
  relay.hold = true;
  const auto ptr = caf::actor_cast<caf::strong_actor_ptr>(relay.actor);
  FreightIn in(&stage.system(), kMine, std::make_shared<Directory>());
  uint64_t number = 0;
  const auto come = [&](const pool_offer& offer, uint32_t piece, uint64_t ticket) {
    run_parts run;
    run.arguments.emplace_back(0, Tensor());
    freight_note note{kFrom, kMine, ++number, piece, offer, {{0, static_cast<uint8_t>(DType::kUint8), {6000}, 6000}},
                      run};
    BOOST_TEST(in.Announce("task", std::move(note), ptr, {1, 2, 3}, true).empty());
    freight_piece sent{kFrom, kMine, number, 0, 0, piece, ticket, Tensor(), true};
    freight_piece read = wire::ThroughBytes(stage.system(), sent).value();
    BOOST_TEST(read.ticket == ticket);
    const auto wholes = in.Arrived(read, ptr);
    if (wholes.empty()) (void)in.Gone({kFrom, kMine, number, absl::AbortedError("enough")});
    BOOST_TEST(in.size() == 0u);
    return wholes.empty() ? absl::OkStatus() : wholes.at(0).lost;
  };
  BOOST_TEST(come(pool->offer(), kSlot, pool->Take()).ok());
  BOOST_TEST(absl::IsInvalidArgument(come({}, kSlot, 5)));
  BOOST_TEST(absl::IsInvalidArgument(come(pool->offer(), kSlot + 8, 5)));
  pool_offer wrong = pool->offer();
  ++wrong.key[0];
  BOOST_TEST(absl::IsInvalidArgument(come(wrong, kSlot, 5)));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace troupe
