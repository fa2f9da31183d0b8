// Messages in pieces.
#include "net/parcels.h"

#include <boost/test/unit_test.hpp>
#include <deque>

namespace troupe {
namespace parcels_test {

std::shared_ptr<const std::vector<char>> Bytes(size_t size) {
  auto bytes = std::make_shared<std::vector<char>>(size);
  for (size_t i = 0; i < size; ++i) (*bytes)[i] = static_cast<char>(i * 7 / 3);
  return bytes;
}
parcel_piece Piece(uint64_t call, uint64_t total, size_t size) {
  parcel_piece p;
  p.call = call;
  p.total = total;
  p.bytes.resize(size);
  return p;
}

BOOST_AUTO_TEST_SUITE(parcels)

BOOST_AUTO_TEST_CASE(edges_1_and_2_and_4_and_5_a_parcel_travels_in_pieces) {
  for (const size_t size : {size_t{1}, ParcelsOut::kPiece, ParcelsOut::kPiece + 1, 20 * ParcelsOut::kPiece + 5}) {
    const auto bytes = Bytes(size);
    ParcelsOut out;
    ParcelsIn in;
    std::deque<parcel_piece> wire;
    for (parcel_piece& p : out.Send(9, parcel_piece::Kind::kRun, bytes)) wire.push_back(std::move(p));
    std::optional<std::vector<char>> whole;
    size_t most = 0;
    while (!wire.empty()) {
      BOOST_REQUIRE(!whole);
      most = std::max(most, wire.size());
      BOOST_REQUIRE(wire.front().bytes.size() <= ParcelsOut::kPiece);
      auto taken = in.Take(std::move(wire.front()));
      BOOST_REQUIRE_MESSAGE(taken.ok(), taken.status());
      whole = *std::move(taken);
      wire.pop_front();
      for (parcel_piece& p : out.Taken(9)) wire.push_back(std::move(p));
    }
    BOOST_REQUIRE(!!whole);
    BOOST_TEST((*whole == *bytes));
    BOOST_TEST(most <= static_cast<size_t>(ParcelsOut::kUnderWay));
    BOOST_TEST(out.size() + in.size() == 0u);
  }
}

BOOST_AUTO_TEST_CASE(edges_3_and_6_what_is_dropped_is_gone) {
  ParcelsOut out;
  ParcelsIn in;
  for (parcel_piece& p : out.Send(1, parcel_piece::Kind::kRun, Bytes(30 * ParcelsOut::kPiece)))
    BOOST_TEST(in.Take(std::move(p)).ok());
  out.Drop(1);
  in.Drop(1);
  BOOST_TEST(out.Taken(1).empty());
  BOOST_TEST(out.size() + in.size() == 0u);
}

BOOST_AUTO_TEST_CASE(edge_7_pieces_that_do_not_fit_are_errors) {
  ParcelsIn in;
  BOOST_TEST(absl::IsInvalidArgument(in.Take(Piece(1, 10, 11)).status()));
  BOOST_TEST(absl::IsInvalidArgument(in.Take(Piece(1, 10, 0)).status()));
  BOOST_TEST(absl::IsInvalidArgument(in.Take(Piece(1, uint64_t{1} << 40, 1)).status()));
  BOOST_TEST(in.Take(Piece(1, 10, 5)).ok());
  BOOST_TEST(absl::IsInvalidArgument(in.Take(Piece(1, 11, 5)).status()));
  BOOST_TEST(in.size() == 0u);
  for (uint64_t i = 0; i < ParcelsIn::kMost; ++i) BOOST_TEST(in.Take(Piece(i, 10, 5)).ok());
  BOOST_TEST(absl::IsResourceExhausted(in.Take(Piece(100, 10, 5)).status()));
  BOOST_TEST(in.Take(Piece(0, 10, 5)).ok());
  BOOST_TEST(in.Take(Piece(100, 10, 5)).ok());
}

BOOST_AUTO_TEST_CASE(edge_8_parcels_wait_for_their_turn) {
  const auto bytes = Bytes(9 * ParcelsOut::kPiece);
  ParcelsOut out;
  ParcelsIn in;
  std::deque<parcel_piece> wire;
  const auto send = [&](std::vector<parcel_piece> pieces) {
    for (parcel_piece& p : pieces) wire.push_back(std::move(p));
  };
  for (uint64_t i = 0; i < 20; ++i) send(out.Send(i, parcel_piece::Kind::kRun, bytes));
  BOOST_TEST(out.Taken(19).empty());  // it waits
  out.Drop(18);                       // and this one does no more
  int whole = 0;
  while (!wire.empty()) {
    const uint64_t call = wire.front().call;
    auto taken = in.Take(std::move(wire.front()));
    BOOST_REQUIRE_MESSAGE(taken.ok(), taken.status());
    whole += taken->has_value() ? 1 : 0;
    wire.pop_front();
    send(out.Taken(call));
  }
  BOOST_TEST(whole == 19);
  BOOST_TEST(out.size() + in.size() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace parcels_test
}  // namespace troupe
