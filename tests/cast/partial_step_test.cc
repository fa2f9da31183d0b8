// The partial step: every numbered edge of partial_step.h.
#include "cast/play.h"

namespace troupe {
namespace {

struct Piecewise : Play {
  Piecewise() {
    y = ops::Placeholder(root.WithOpName("y"), DType::kFloat);
    sum = ops::Add(root.WithOpName("sum"), twice, y);
    Extend();
  }
  std::string SetUp(const Names& fetches) {
    std::string handle;
    stage.Inline([&] {
      auto h = session->PartialRunSetup({"x", "y"}, fetches, {});
      BOOST_REQUIRE_MESSAGE(h.ok(), h.status());
      handle = *h;
    });
    return handle;
  }
  absl::Status Run(const std::string& handle, const Feeds& f, const Names& fetches) {
    absl::Status s;
    stage.Inline([&] { s = session->PartialRun(handle, f, fetches, &outputs); });
    return s;
  }
  Output y, sum;
  const Feeds fx = {{"x", Tensor::Scalar(1.0f)}}, fy = {{"y", Tensor::Scalar(5.0f)}};
};

BOOST_FIXTURE_TEST_CASE(Edges1And3AStepIsFedAndFetchedPieceByPiece, Piecewise) {
  const std::string h = SetUp({"twice", "sum"});
  TROUPE_REQUIRE_OK(Run(h, fx, {"twice"}));
  BOOST_TEST(outputs.at(0).scalar<float>() == 2.0f);
  TROUPE_REQUIRE_OK(Run(h, fy, {"sum"}));
  BOOST_TEST(outputs.at(0).scalar<float>() == 7.0f);
  BOOST_TEST(Run(h, {}, {}).code() == absl::StatusCode::kInvalidArgument);  // the handle has been used up
}

BOOST_FIXTURE_TEST_CASE(Edge2WhatIsRefusedLeavesTheStepAsItWas, Piecewise) {
  const std::string h = SetUp({"twice", "sum"});
  const auto refused = [&](const Feeds& f, const Names& fetches) {
    const absl::Status s = Run(h, f, fetches);
    BOOST_TEST(s.code() == absl::StatusCode::kInvalidArgument, s);
    return std::string(s.message());
  };
  BOOST_TEST(refused(fx, {"sum"}).find("depends on 'y'") != std::string::npos);
  BOOST_TEST(refused({{"z", Tensor::Scalar(1.0f)}}, {}).find("'z' is no feed") != std::string::npos);
  BOOST_TEST(refused(fx, {"never"}).find("'never' is no fetch") != std::string::npos);
  BOOST_TEST(refused({{"x", Tensor::Scalar<int32_t>(1)}}, {}).find("float32") != std::string::npos);
  TROUPE_REQUIRE_OK(Run(h, fx, {"twice"}));
  refused(fx, {});
  refused({}, {"twice"});
  TROUPE_REQUIRE_OK(Run(h, fy, {"sum"}));
  BOOST_TEST(outputs.at(0).scalar<float>() == 7.0f);
}

BOOST_FIXTURE_TEST_CASE(Edge4AnErrorEndsTheStepAndTheHandle, Piecewise) {
  const std::string h = SetUp({"twice", "sum"});
  stage.Inline([&] { stage.Kill(Find("device:" + runtime->devices()[0].name)); });
  BOOST_TEST(Run(h, fx, {"twice"}).code() == absl::StatusCode::kAborted);
  BOOST_TEST(Run(h, fx, {"twice"}).code() == absl::StatusCode::kInvalidArgument);
}

BOOST_FIXTURE_TEST_CASE(Edge5AStepThatIsGivenUpIsAbortedAndItsSetIsUsedAgain, Piecewise) {
  SetUp({"twice", "sum"});
  BOOST_TEST(stage.Play() == "");
  stage.Inline([&] { TROUPE_REQUIRE_OK(session->Close()); });
  BOOST_TEST(stage.Play() == "");
}

}  // namespace
}  // namespace troupe
