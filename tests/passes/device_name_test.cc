// Names of devices: reading, merging and matching.
#include "graph/core/device_name.h"

#include <boost/test/unit_test.hpp>

namespace troupe {
namespace device_name_test {

BOOST_AUTO_TEST_SUITE(device_name)

BOOST_AUTO_TEST_CASE(every_form_is_read_and_written_canonically) {
  const struct {
    const char *text, *canonical;
  } kCases[] = {
      {"", ""},
      {"/", ""},
      {"/job:a/replica:0/task:1/device:CPU:0", "/job:a/replica:0/task:1/device:CPU:0"},
      {"/device:GPU:3/task:7/job:w_1", "/job:w_1/task:7/device:GPU:3"},
      {"/job:a", "/job:a"},
      {"/job:*/task:*", ""},
      {"/cpu:0", "/device:CPU:0"},
      {"/gpu:1", "/device:GPU:1"},
      {"/GPU:1", "/device:GPU:1"},
      {"/cpu:*", "/device:CPU:*"},
      {"/cpu", "/device:CPU:*"},
      {"/job:ps/cpu:0", "/job:ps/device:CPU:0"},
      {"/device:GPU:*", "/device:GPU:*"},
      {"/device:GPU", "/device:GPU:*"},
      {"/device:*", ""},
      {"/device:*:2", "/device:*:2"},
      {"/device:cpu:0", "/device:CPU:0"},
      {"CPU:0", "/device:CPU:0"},
      {"gpu:*", "/device:GPU:*"},
      {"XLA_CPU:1", "/device:XLA_CPU:1"},
  };
  for (const auto& c : kCases) {
    BOOST_TEST_CONTEXT("'" << c.text << "'") {
      auto name = DeviceName::Parse(c.text);
      BOOST_REQUIRE_MESSAGE(name.ok(), name.status().ToString());
      BOOST_TEST(name->ToString() == c.canonical);
      auto again = DeviceName::Parse(name->ToString());
      BOOST_REQUIRE(again.ok());
      BOOST_TEST((*again == *name));
    }
  }
}

BOOST_AUTO_TEST_CASE(anything_else_is_refused_with_its_reason) {
  const struct {
    const char *text, *reason;
  } kCases[] = {
      {"/jub:a", "'/jub:a' is none of"},
      {"/job:", "has no value"},
      {"/job", "has no value"},
      {"/job:1a", "no name of a job"},
      {"/job:a/job:b", "two job fields"},
      {"/task:1/task:1", "two task fields"},
      {"/task:-1", "no number of a task"},
      {"/task:1x", "no number of a task"},
      {"/task:99999999999", "no number of a task"},
      {"/device:CPU:0/gpu:0", "two device fields"},
      {"/device:CPU:", "number is missing"},
      {"/device:CPU:0:0", "no number of a device"},
      {"//job:a", "is none of"},
      {"/job:a/", "is none of"},
      {"7:0", "no device type"},
      {"/replica:", "has no value"},
  };
  for (const auto& c : kCases) {
    BOOST_TEST_CONTEXT("'" << c.text << "'") {
      auto name = DeviceName::Parse(c.text);
      BOOST_REQUIRE(!name.ok());
      BOOST_TEST((name.status().code() == absl::StatusCode::kInvalidArgument));
      const std::string message(name.status().message());
      BOOST_TEST(message.find(c.reason) != std::string::npos, message);
    }
  }
  BOOST_TEST(DeviceName::ParseFull("/job:a/replica:0/task:0/cpu:0").ok());
  BOOST_TEST(!DeviceName::ParseFull("/job:a/task:0/cpu:0").ok());
  BOOST_TEST(!DeviceName::ParseFull("/job:a/replica:0/task:0/device:CPU:*").ok());
}

BOOST_AUTO_TEST_CASE(merging_adds_constraints_and_softens_types_only) {
  const struct {
    const char *a, *b, *hard, *soft;  // null: refused
  } kCases[] = {
      {"", "", "", ""},
      {"/job:a", "/task:1", "/job:a/task:1", "/job:a/task:1"},
      {"/job:a", "/job:a/device:GPU:*", "/job:a/device:GPU:*", "/job:a/device:GPU:*"},
      {"/device:GPU:*", "/device:GPU:2", "/device:GPU:2", "/device:GPU:2"},
      {"/job:a", "/job:b", nullptr, nullptr},
      {"/replica:0", "/replica:1", nullptr, nullptr},
      {"/task:0", "/task:1/cpu:0", nullptr, nullptr},
      {"/task:0/cpu:0", "/gpu:0", nullptr, "/task:0"},
      {"/gpu:0", "/gpu:1", nullptr, "/device:GPU:*"},
      {"/device:GPU:*", "/cpu:0", nullptr, ""},
  };
  for (const auto& c : kCases) {
    BOOST_TEST_CONTEXT("'" << c.a << "' + '" << c.b << "'") {
      for (bool soft : {false, true}) {
        const char* expected = soft ? c.soft : c.hard;
        DeviceName target = DeviceName::Parse(c.a).value();
        const DeviceName other = DeviceName::Parse(c.b).value();
        const absl::Status s = MergeDevNames(&target, other, soft);
        BOOST_TEST(s.ok() == (expected != nullptr));
        BOOST_TEST(target.ToString() == (expected ? std::string(expected) : DeviceName::Parse(c.a)->ToString()));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_request_matches_devices_that_have_all_it_names) {
  const DeviceName gpu = DeviceName::ParseFull("/job:a/replica:0/task:1/device:GPU:0").value();
  BOOST_TEST(gpu.IsComplete());
  for (const char* yes : {"", "/job:a", "/device:GPU:*", "/task:1/gpu:0"}) {
    BOOST_TEST(DeviceName::Parse(yes)->Matches(gpu), yes);
  }
  for (const char* no : {"/job:b", "/cpu:0", "/gpu:1", "/task:0"}) {
    BOOST_TEST(!DeviceName::Parse(no)->Matches(gpu), no);
    BOOST_TEST(!DeviceName::Parse(no)->IsCompatibleWith(gpu), no);
  }
  BOOST_TEST(!gpu.Matches(*DeviceName::Parse("/job:a")));
  BOOST_TEST(gpu.IsCompatibleWith(*DeviceName::Parse("/job:a")));
  DeviceName partial = DeviceName::Parse("/device:CPU:*").value();
  partial.FillFrom(gpu);
  BOOST_TEST(partial.ToString() == "/job:a/replica:0/task:1/device:CPU:*");
  BOOST_TEST(gpu.TaskName() == "/job:a/replica:0/task:1");
  BOOST_TEST(gpu.LocalName() == "/device:GPU:0");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace device_name_test
}  // namespace troupe
