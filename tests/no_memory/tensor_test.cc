// Tensors whose dimensions are too many to stand in them: what fails to be made leaves no buffer
// behind.
#include "tests/no_memory/each_allocation.h"
#include "troupe/tensor.h"

namespace troupe {
namespace tensor_test {

using testing::AtEachAllocation;
using testing::Failing;

BOOST_AUTO_TEST_SUITE(tensors)

BOOST_AUTO_TEST_CASE(a_tensor_that_could_not_be_made_has_no_memory) {
  const TensorShape wide({1, 2, 1, 2, 1, 2, 1});
  Allocator allocator("a test's");
  Tensor t(&allocator, DType::kFloat, wide);
  const int64_t before = allocator.stats().bytes_in_use;
  BOOST_TEST(before > 0);
  const auto each = [&](const auto& make) {
    AtEachAllocation([&](long k) {
      long failed = 0;
      {
        const Failing no_memory(k, 1);
        try {
          const Tensor made = make();
        } catch (const std::bad_alloc&) {
        }
        failed = Failing::failed();
      }
      BOOST_TEST(allocator.stats().bytes_in_use == before);
      BOOST_TEST(t.HasShape(wide));
      BOOST_TEST(t.valid());
      return failed > 0;
    });
  };
  each([&] { return Tensor(&allocator, DType::kFloat, wide); });
  each([&] { return Tensor(t); });
  each([&] { return t.Clone(); });
  each([&] { return t.Slice(0, 1); });
  each([&] { return t.WithType(DType::kInt32, wide); });
  // Nobody but `t` has a reference.
  Buffer* const buffer = t.buffer();
  BOOST_TEST(buffer->Unique());
  AtEachAllocation([&](long k) {
    long failed = 0;
    {
      const Failing no_memory(k, 1);
      try {
        t = std::move(t).ReshapedMove(wide);
      } catch (const std::bad_alloc&) {
      }
      failed = Failing::failed();
    }
    BOOST_TEST(t.buffer() == buffer);
    return failed > 0;
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tensor_test
}  // namespace troupe
