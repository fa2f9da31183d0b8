// Tensors between processes of one host, by way of memory that both can read.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <thread>

#include "actors/same_host/shared_pool.h"
#include "tests/remote/shared_play.h"

namespace troupe {
namespace shared_memory_test {

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

// Whoever is connected may send any ticket back.
BOOST_AUTO_TEST_CASE(a_guessed_ticket_frees_no_slot) {
  constexpr uint32_t kSlots = 4;
  const auto pool = SharedPool::Make(kSlot, kSlots), other = SharedPool::Make(kSlot, kSlots);
  BOOST_REQUIRE((pool != nullptr && other != nullptr));
  std::vector<uint64_t> tickets;
  for (uint32_t i = 0; i < kSlots; ++i) {
    tickets.push_back(pool->Take());
    BOOST_TEST(tickets.back() > 1u << 20);
    const uint64_t others = other->Take();
    BOOST_TEST(others != tickets.back());
    pool->Give(others);
  }
  for (const uint64_t known : tickets) {
    pool->Give(known % kSlots);
    for (uint64_t k = 1; k < 1000; ++k) {
      if (std::find(tickets.begin(), tickets.end(), known + k) == tickets.end()) pool->Give(known + k);
      if (std::find(tickets.begin(), tickets.end(), known - k) == tickets.end()) pool->Give(known - k);
    }
  }
  BOOST_TEST(pool->taken() == kSlots);
  for (const uint64_t ticket : tickets) pool->Give(ticket);
  BOOST_TEST(pool->taken() == 0u);
}

BOOST_AUTO_TEST_CASE(nobody_else_writes_to_it) {
  const auto pool = SharedPool::Make(kSlot, 2);
  BOOST_REQUIRE(pool != nullptr);
  const std::string path = "/proc/self/fd/" + std::to_string(pool->offer().fd);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return;  // nobody may even open it
  constexpr int kFutureWrite = 0x10;
  if ((fcntl(fd, F_GET_SEALS) & kFutureWrite) == 0) {
    BOOST_TEST_MESSAGE("skipped: this kernel has no seal against writing (Linux 5.1)");
  } else {
    BOOST_TEST(pwrite(fd, "x", 1, 0) == -1);
    BOOST_TEST(mmap(nullptr, kSlot, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    void* const seen = mmap(nullptr, kSlot, PROT_READ, MAP_SHARED, fd, 0);
    BOOST_REQUIRE(seen != MAP_FAILED);
    BOOST_TEST(mprotect(seen, kSlot, PROT_READ | PROT_WRITE) == -1);
    munmap(seen, kSlot);
  }
  BOOST_TEST(ftruncate(fd, 0) == -1);
  BOOST_TEST(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == -1);
  close(fd);
  const uint64_t ticket = pool->Take();
  std::memset(pool->At(ticket), 'y', kSlot);
  BOOST_TEST(SharedView::Open(pool->offer())->At(ticket, 1)[0] == 'y');
}

// A signal would end the program.
BOOST_AUTO_TEST_CASE(a_limit_for_files_gives_no_pool) {
  const pid_t child = fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_DFL);
    const rlimit limit{2 * kSlot, 2 * kSlot};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
    if (SharedPool::Make(kSlot, 2) != nullptr) _exit(3);
    _exit(SharedPool::Make(kSlot, 1) != nullptr ? 0 : 4);
  }
  int status = -1;
  BOOST_REQUIRE(waitpid(child, &status, 0) == child);
  BOOST_TEST(status == 0);
}

BOOST_AUTO_TEST_CASE(a_process_has_so_many_views_and_no_more) {
  const auto pool = SharedPool::Make(kSlot, 1);
  BOOST_REQUIRE(pool != nullptr);
  std::vector<std::shared_ptr<const SharedView>> views;
  while (auto view = SharedView::Open(pool->offer())) {
    views.push_back(std::move(view));
    BOOST_REQUIRE(views.size() < 2000u);
  }
  BOOST_TEST(views.size() == 1024u);
  BOOST_TEST(Mappings() == 1025);
  views.pop_back();
  BOOST_TEST(SharedView::Open(pool->offer()) != nullptr);
  views.clear();
  BOOST_TEST(Mappings() == 1);
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

BOOST_AUTO_TEST_CASE(big_tensors_pass_by_way_of_shared_memory) {
  {
    SharedPlay p;
    for (int i = 0; i < 3; ++i) p.RunOnce(static_cast<float>(i));
    for (const std::string& name : p.processes->names) {
      BOOST_TEST(p.Out(name).bytes_in_shared_memory() == 3u * 4 * SharedPlay::kFloats, name);
      BOOST_TEST(p.Out(name).bytes_in_messages() == 0u, name);
    }
    BOOST_TEST(OpenPools() == 2);  // one for each direction, whatever the number of steps
    BOOST_TEST(Mappings() == 4);   // of each its maker's and its reader's
    // The process goes, and its memory with it, and what was seen of its own.
    p.processes->Went(kPsTask, kMasterTask);
    p.stage.Play();
    BOOST_TEST(OpenPools() == 1);
    BOOST_TEST(Mappings() == 2);
  }
  BOOST_TEST(OpenPools() == 0);
  BOOST_TEST(Mappings() == 0);
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

// Memory that processes of other hosts declined leaves room for those of this one.
BOOST_AUTO_TEST_CASE(what_was_declined_takes_no_place) {
  Stage stage;
  Relay to(&stage, nullptr), from(&stage, nullptr);
  to.hold = from.hold = true;
  FreightOut out(&stage.system(), 1, nullptr);
  out.set_limits({.big = 8, .piece = 16, .under_way = 1, .share = true, .slot = kSlot, .slots = 2, .pools = 1});
  for (uint64_t peer = 2; peer < 6; ++peer) {
    uint64_t number = 0;
    TROUPE_REQUIRE_OK(
        out.Send(to.actor, peer,
                 part_letter{1, 5, {1, 1}, tensor_to_part{5, 0, {}, false, Tensor::Vector<float>({1, 2, 3, 4, 5}), 0}},
                 FreightOut::Owner{1, 5, 0}, caf::actor_cast<caf::strong_actor_ptr>(from.actor), &number));
    stage.Play();
    BOOST_REQUIRE(to.held.size() == 1u);
    BOOST_TEST(to.held[0].second.get_as<freight_note>(0).pool.pid != 0u, "process " << peer);
    to.held.clear();
    BOOST_TEST(OpenPools() == 1);
    out.Go({1, peer, number, false});
    out.Drop({1, peer, number});
    stage.Play();
    to.held.clear();
    BOOST_TEST(OpenPools() == 0);
  }
}

BOOST_AUTO_TEST_CASE(so_many_processes_get_such_memory_and_no_more) {
  SharedPlay p;
  p.Out(kMasterTask).set_limits({.big = 8, .piece = 4096, .slot = kSlot, .slots = 2, .pools = 0});
  p.RunOnce();
  BOOST_TEST(p.Out(kMasterTask).bytes_in_shared_memory() == 0u);
  BOOST_TEST(p.Out(kMasterTask).bytes_in_messages() == 4u * SharedPlay::kFloats);
}

// Memory made for a process that went meanwhile would stay, as nobody says again that it went.
BOOST_AUTO_TEST_CASE(who_went_gets_no_memory_afterwards) {
  SharedPlay p;
  Relay gone(&p.stage, nullptr);
  gone.hold = true;
  Runtime& master = p.processes->Of(kMasterTask);
  Tensor x(DType::kFloat, TensorShape({SharedPlay::kFloats}));
  std::fill_n(x.data<float>(), SharedPlay::kFloats, 2.0f);
  for (uint64_t incarnation = 5000; incarnation < 5040; ++incarnation) {
    run_parts run;
    run.arguments.emplace_back(0, x);
    const absl::Status sent = SendWithTensors(
        p.stage.system(), *master.impl()->remote, p.processes->incarnations.at(kMasterTask), gone.actor, incarnation,
        std::move(run), std::nullopt, caf::actor_cast<caf::strong_actor_ptr>(WorkerOf(master, kMasterTask)));
    BOOST_TEST(absl::IsUnavailable(sent), sent);
  }
  BOOST_TEST(OpenPools() == 0);
  BOOST_TEST(p.Out(kMasterTask).size() == 0u);
  p.RunOnce();
  BOOST_TEST(p.Out(kMasterTask).bytes_in_shared_memory() == 4u * SharedPlay::kFloats);
}

// One note goes by way of shared memory when another one is told that it cannot be read.
BOOST_AUTO_TEST_CASE(what_is_declined_late_loses_no_slot) {
  Stage stage;
  Relay to(&stage, nullptr), from(&stage, nullptr);
  to.hold = from.hold = true;
  FreightOut out(&stage.system(), 1, nullptr);
  out.set_limits({.big = 8, .piece = 16, .under_way = 1, .share = true, .slot = kSlot, .slots = 2});
  const auto send = [&] {
    uint64_t number = 0;
    Tensor x(DType::kUint8, TensorShape({5 * kSlot}));
    std::memset(x.raw(), 1, 5 * kSlot);
    TROUPE_REQUIRE_OK(out.Send(to.actor, 2, part_letter{1, 5, {1, 1}, tensor_to_part{5, 0, {}, false, x, 0}},
                               FreightOut::Owner{1, 5, 0}, caf::actor_cast<caf::strong_actor_ptr>(from.actor),
                               &number));
    return number;
  };
  const uint64_t shared = send(), declined = send();
  out.Go({1, 2, shared, true});
  out.Go({1, 2, declined, false});
  BOOST_TEST(out.slots_taken() == 2u);
  std::map<uint64_t, int> in_slots, in_messages;
  for (bool more = true; more;) {
    stage.Play();
    more = false;
    std::vector<freight_piece> pieces;
    for (auto& [sender, message] : to.held) {
      if (message.match_elements<freight_piece>()) pieces.push_back(message.get_as<freight_piece>(0));
    }
    to.held.clear();
    for (const freight_piece& piece : pieces) {
      ++(piece.ticket != 0 ? in_slots : in_messages)[piece.number];
      out.Taken({1, 2, piece.ticket});
      more = true;
    }
  }
  BOOST_TEST(in_slots[shared] + in_messages[shared] == 5);
  BOOST_TEST(in_slots[shared] >= 2);
  BOOST_TEST(in_slots[declined] == 0);
  BOOST_TEST(in_messages[declined] == 5);
  BOOST_TEST(out.size() == 0u);
  BOOST_TEST(out.slots_taken() == 0u);
  BOOST_TEST(OpenPools() == 0);  // nobody needs it any more
  // It is not offered again.
  const uint64_t next = send();
  stage.Play();
  BOOST_REQUIRE(to.held.size() == 1u);
  BOOST_TEST(to.held[0].second.get_as<freight_note>(0).pool.pid == 0u);
  out.Drop({1, 2, next});
  // A ticket comes back after the end of all notes.
  BOOST_TEST(out.under_way() == 0);
}

// A process goes with pieces under way; the tickets that it had are worth nothing afterwards.
BOOST_AUTO_TEST_CASE(a_process_that_goes_costs_no_slot) {
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
    const auto view = in.View(note);
    BOOST_TEST(in.Announce("task", std::move(note), ptr, {1, 2, 3}, true, view).empty());
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

}  // namespace shared_memory_test
}  // namespace troupe
