// Whole tensors that lie in another process's memory (same_host/leases.h).
#include <cstring>

#include "actors/same_host/leases.h"
#include "tests/remote/shared_play.h"

namespace troupe {
namespace leases_test {

constexpr uint64_t kReader = 7, kOther = 8;

BOOST_AUTO_TEST_SUITE(leases)

BOOST_AUTO_TEST_CASE(memory_that_was_given_back_is_used_again) {
  Leases leases;
  Lease first = leases.Take(kReader, 10000);
  BOOST_REQUIRE(!!first);
  BOOST_TEST(leases.bytes() == 3u * 4096);
  BOOST_TEST(leases.leased() == 1u);
  // Not what somebody has.
  const Lease second = leases.Take(kReader, 10000);
  BOOST_REQUIRE(!!second);
  BOOST_TEST((second.memory() != first.memory()));
  const uint64_t ticket = first.ticket();
  const std::shared_ptr<SharedPool> memory = first.memory();
  first.Keep();  // it is on its way
  first = Lease();
  BOOST_TEST(leases.leased() == 2u);
  leases.Give(kOther, ticket);
  leases.Give(kReader, ticket + 1);
  BOOST_TEST(leases.leased() == 2u);
  leases.Give(kReader, ticket);
  BOOST_TEST(leases.leased() == 1u);
  // By whoever needs as much, or a little less; not for what is much shorter, or longer.
  {
    const Lease again = leases.Take(kOther, 9000);
    BOOST_TEST((again.memory() == memory));
    BOOST_TEST((again.ticket() != ticket));
    // The reader before does not have it any more.
    leases.Give(kReader, again.ticket());
    BOOST_TEST(leases.leased() == 2u);
  }
  BOOST_TEST(leases.leased() == 1u);  // one that was not kept goes back by itself
  const Lease shorter = leases.Take(kReader, 100), longer = leases.Take(kReader, 13000);
  BOOST_TEST((shorter.memory() != memory));
  BOOST_TEST((longer.memory() != memory));
  BOOST_TEST(!leases.Take(kReader, 0));
  BOOST_TEST(!leases.Take(kReader, ~uint64_t{0}));
  BOOST_TEST(!leases.Take(kReader, uint64_t{1} << 32));
}

BOOST_AUTO_TEST_CASE(there_is_so_much_of_it_and_no_more) {
  Leases leases;
  // Of which one reader has 5 and 3.
  leases.set_limits({.bytes = 7 * 4096, .count = 4});
  {
    const Lease two = leases.Take(kReader, 8192), one = leases.Take(kReader, 4096);
    BOOST_REQUIRE((!!two && !!one));
    BOOST_TEST(!leases.Take(kReader, 3 * 4096));
    const Lease last = leases.Take(kReader, 4096);
    BOOST_TEST(!!last);
    BOOST_TEST(!leases.Take(kReader, 4096));  // a fourth
    // Others have what is left.
    const Lease others = leases.Take(kOther, 4096);
    BOOST_TEST(!!others);
    BOOST_TEST(!leases.Take(kOther, 4096));
    BOOST_TEST(leases.bytes() == 5u * 4096);
    BOOST_TEST(OpenPools() == 4);
  }
  // What nobody has makes room, as much as is needed: what was used longest ago goes first.
  BOOST_TEST(leases.leased() == 0u);
  const Lease big = leases.Take(kReader, 5 * 4096);
  BOOST_TEST(!!big);
  BOOST_TEST(leases.bytes() <= 7u * 4096);
  const uint64_t before = leases.bytes();
  BOOST_TEST(!leases.Take(kOther, 4 * 4096));
  // What could not make enough room has stayed.
  BOOST_TEST(leases.bytes() == before);
  leases.Clear();
  BOOST_TEST(leases.bytes() == 0u);
  BOOST_TEST(OpenPools() == 1);  // what is on its way has its memory still
}

BOOST_AUTO_TEST_CASE(what_is_not_needed_any_more_goes) {
  Leases leases;
  (void)leases.Take(kReader, 40960);
  BOOST_TEST(leases.bytes() == 40960u);
  LeasedViews views;
  for (int i = 0; i < 300; ++i) {
    Lease l = leases.Take(kReader, 4096);
    BOOST_REQUIRE(!!l);
    Buffer* const b = views.Adopt(l.memory()->offer(), l.ticket(), 4096, [] {});
    BOOST_REQUIRE(b != nullptr);
    b->Unref();
  }
  BOOST_TEST(leases.bytes() == 4096u);
  BOOST_TEST(views.size() == 1u);
}

BOOST_AUTO_TEST_CASE(what_a_reader_that_went_has_stays_its_and_is_not_used_again) {
  Leases leases;
  Lease gone = leases.Take(kReader, 4096), others = leases.Take(kOther, 4096);
  BOOST_REQUIRE((!!gone && !!others));
  std::memset(gone.memory()->At(gone.ticket()), 'x', 4096);
  LeasedViews views;
  int returned = 0;
  Buffer* const bytes = views.Adopt(gone.memory()->offer(), gone.ticket(), 4096, [&] { ++returned; });
  BOOST_REQUIRE(bytes != nullptr);
  gone.Keep();
  gone = Lease();
  leases.Forget(kReader);
  BOOST_TEST(leases.leased() == 1u);
  BOOST_TEST(leases.bytes() == 4096u);
  const Lease next = leases.Take(kReader, 4096);
  std::memset(next.memory()->At(next.ticket()), 'y', 4096);
  BOOST_TEST(std::string(static_cast<const char*>(bytes->data()), 4096) == std::string(4096, 'x'));
  BOOST_TEST(returned == 0);
  bytes->Unref();
  BOOST_TEST(returned == 1);
}

BOOST_AUTO_TEST_CASE(a_buffer_lies_where_it_is_leased) {
  Leases leases;
  auto views = std::make_unique<LeasedViews>();
  Lease lease = leases.Take(kReader, 5000);
  BOOST_REQUIRE(!!lease);
  std::memset(lease.memory()->At(lease.ticket()), 'a', 5000);
  const pool_offer offer = lease.memory()->offer();
  int returned = 0;
  Buffer* const bytes = views->Adopt(offer, lease.ticket(), 5000, [&] { ++returned; });
  BOOST_REQUIRE(bytes != nullptr);
  BOOST_TEST(bytes->size() == 5000u);
  {
    const Tensor t(DType::kUint8, TensorShape({5000}), bytes);
    BOOST_TEST(t.data<uint8_t>()[4999] == 'a');
    BOOST_TEST(!t.BufferUnique());  // so that no kernel writes to it
    BOOST_TEST(t.Clone().BufferUnique());
  }
  BOOST_TEST(returned == 1);
  // Opened once, whatever the number of tensors.
  const int before = Mappings();
  Buffer* const second = views->Adopt(offer, lease.ticket(), 100, [&] { ++returned; });
  BOOST_REQUIRE(second != nullptr);
  BOOST_TEST(Mappings() == before);
  BOOST_TEST(views->size() == 1u);
  BOOST_TEST(views->Adopt(offer, lease.ticket(), 8193, [&] { ++returned; }) == nullptr);
  pool_offer wrong = offer;
  ++wrong.key[1];
  BOOST_TEST(views->Adopt(wrong, lease.ticket(), 100, [&] { ++returned; }) == nullptr);
  BOOST_TEST(returned == 1);
  // What is leased outlives both sides.
  views = nullptr;
  lease = Lease();
  leases.Clear();
  BOOST_TEST(static_cast<const char*>(second->data())[99] == 'a');
  second->Unref();
  BOOST_TEST(returned == 2);
  BOOST_TEST(Mappings() == 0);
}

BOOST_AUTO_TEST_CASE(views_that_are_not_used_go) {
  LeasedViews views;
  for (int i = 0; i < 80; ++i) {
    const auto pool = SharedPool::Make(kSlot, 1);
    BOOST_REQUIRE(pool != nullptr);
    Buffer* const b = views.Adopt(pool->offer(), pool->Take(), kSlot, [] {});
    BOOST_REQUIRE(b != nullptr);
    b->Unref();
  }
  BOOST_TEST(views.size() == 64u);
  BOOST_TEST(Mappings() == 64);
}

BOOST_AUTO_TEST_CASE(steps_lease_their_big_tensors) {
  {
    SharedPlay p(kSlot);
    for (int i = 0; i < 3; ++i) p.RunOnce(static_cast<float>(i));
    for (const std::string& name : p.processes->names) {
      BOOST_TEST(p.Out(name).bytes_in_shared_memory() == 3u * 4 * SharedPlay::kFloats, name);
      BOOST_TEST(p.Out(name).bytes_in_messages() == 0u, name);
      BOOST_TEST(p.Out(name).leases().bytes() == 5u * kSlot, name);  // the same memory each time
    }
    BOOST_TEST(OpenPools() == 4);  // in each direction the slots, and the lease
    BOOST_TEST(Mappings() == 8);
    // The program may write to what it has fetched, and keep it.
    BOOST_TEST(p.outputs.at(0).BufferUnique());
    p.outputs.at(0).data<float>()[0] = 1;
    p.processes->Went(kPsTask, kMasterTask);
    p.stage.Play();
    // What nobody has stays for others.
    BOOST_TEST(p.Out(kMasterTask).leases().bytes() == 5u * kSlot);
  }
  BOOST_TEST(OpenPools() == 0);
  BOOST_TEST(Mappings() == 0);
}

BOOST_AUTO_TEST_CASE(without_memory_to_lease_slots_do) {
  SharedPlay p(kSlot);
  p.Out(kMasterTask).leases().set_limits({.bytes = 4 * kSlot});
  for (int i = 0; i < 2; ++i) p.RunOnce();
  BOOST_TEST(p.Out(kMasterTask).bytes_in_shared_memory() == 2u * 4 * SharedPlay::kFloats);
  BOOST_TEST(p.Out(kMasterTask).leases().bytes() == 0u);
  BOOST_TEST(p.Out(kPsTask).leases().bytes() == 5u * kSlot);
}

BOOST_AUTO_TEST_CASE(a_process_that_goes_costs_no_lease) {
  for (int dies_at = 1; dies_at < 14; ++dies_at) {
    SharedPlay p(kSlot);
    p.RunOnce();
    Tensor x(DType::kFloat, TensorShape({SharedPlay::kFloats}));
    std::fill_n(x.data<float>(), SharedPlay::kFloats, 2.0f);
    p.answer.reset();
    p.session->RunAsync({}, {{"x", x}}, {"back"}, {},
                        [&](absl::Status s, std::vector<Tensor>) { p.answer = std::move(s); });
    for (int messages = 0; messages < dies_at && !p.stage.Deliver().empty();) ++messages;
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

// What comes of a lease that does not fit is refused, and given back.
BOOST_AUTO_TEST_CASE(leases_that_do_not_fit_are_given_back) {
  Stage stage;
  constexpr uint64_t kMine = 900, kFrom = 901;
  const auto pool = SharedPool::Make(kSlot, 2);
  Leases leases;
  const Lease lease = leases.Take(kMine, 6000);
  BOOST_REQUIRE((pool != nullptr && !!lease));
  Relay relay(&stage, nullptr);
  relay.hold = true;
  const auto ptr = caf::actor_cast<caf::strong_actor_ptr>(relay.actor);
  FreightIn in(&stage.system(), kMine, std::make_shared<Directory>());
  uint64_t number = 0;
  const auto count = [&](auto message) {
    stage.Play();
    return std::count_if(relay.held.begin(), relay.held.end(),
                         [&](const auto& each) { return each.second.template match_elements<decltype(message)>(); });
  };
  // The tensor that came; none: why not.
  const auto come = [&](DType dtype, const pool_offer& slots, const pool_offer& lies_in, uint64_t offset,
                        uint32_t size) {
    relay.held.clear();
    run_parts run;
    run.arguments.emplace_back(0, Tensor());
    freight_note note{kFrom, kMine, ++number, kSlot, slots, {{0, static_cast<uint8_t>(dtype), {6000}, 6000}}, run};
    const auto view = in.View(note);
    BOOST_TEST(in.Announce("task", std::move(note), ptr, {1, 2, 3}, true, view).empty());
    const freight_piece sent{kFrom, kMine, number, 0, offset, size, lease.ticket(), Tensor(), true, lies_in};
    const freight_piece read = wire::ThroughBytes(stage.system(), sent).value();
    BOOST_TEST(read.lease.key[0] == lies_in.key[0]);
    auto wholes = in.Arrived(read, ptr);
    BOOST_TEST(count(freight_taken{}) == 1);
    BOOST_TEST(in.size() == 0u);
    BOOST_REQUIRE(wholes.size() == 1u);
    return std::move(wholes[0]);
  };
  const pool_offer lies = lease.memory()->offer();
  {
    FreightIn::Whole whole = come(DType::kUint8, pool->offer(), lies, 0, 6000);
    TROUPE_REQUIRE_OK(whole.lost);
    BOOST_TEST(count(freight_returned{}) == 0);
    const Tensor value = std::get<run_parts>(whole.message).arguments.at(0).second;
    whole.message = run_parts();
    BOOST_TEST(value.raw() != nullptr);
    BOOST_TEST((value.buffer()->kind() == BufferKind::kForeign));
    BOOST_TEST(count(freight_returned{}) == 0);
  }
  BOOST_TEST(count(freight_returned{}) == 1);
  // What cannot be mapped is copied: this process has as many views as it may have. The first one
  // takes the place of what is kept for later, and nothing is for the second.
  {
    std::vector<std::shared_ptr<const SharedView>> all;
    while (auto view = SharedView::Open(pool->offer())) all.push_back(std::move(view));
    Leases others;
    const Lease second = others.Take(kMine, 6000), third = others.Take(kMine, 6000);
    BOOST_REQUIRE((!!second && !!third));
    std::vector<Tensor> values;
    for (const Lease* l : {&second, &third}) {
      std::memset(l->memory()->At(l->ticket()), 'c', 6000);
      FreightIn::Whole whole = come(DType::kUint8, pool->offer(), l->memory()->offer(), 0, 6000);
      TROUPE_REQUIRE_OK(whole.lost);
      values.push_back(std::get<run_parts>(whole.message).arguments.at(0).second);
      BOOST_TEST(values.back().data<uint8_t>()[0] == 'c');
      BOOST_TEST(values.back().data<uint8_t>()[5999] == 'c');
    }
    BOOST_TEST((values[0].buffer()->kind() == BufferKind::kForeign));
    BOOST_TEST((values[1].buffer()->kind() == BufferKind::kPlain));
    BOOST_TEST(count(freight_returned{}) == 1);
  }
  pool_offer wrong = lies;
  ++wrong.key[0];
  for (const FreightIn::Whole& lost :
       {come(DType::kUint8, pool->offer(), wrong, 0, 6000), come(DType::kUint8, pool->offer(), lies, 0, 5000),
        come(DType::kUint8, pool->offer(), lies, kSlot, 6000 - kSlot), come(DType::kBool, pool->offer(), lies, 0, 6000),
        come(DType::kUint8, {}, lies, 0, 6000)}) {
    BOOST_TEST(absl::IsInvalidArgument(lost.lost), lost.lost);
    BOOST_TEST(count(freight_returned{}) == 1);
  }
  BOOST_TEST(!FreightBerth::Find({kMine, kFrom, number, 0}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace leases_test
}  // namespace troupe
