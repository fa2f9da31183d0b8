// Data sets: every source and transformation against a plain loop, and positions: from each place
// of an iteration another iterator goes on with the same elements.
#include "troupe/dataset.h"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <limits>
#include <set>

namespace troupe {
namespace dataset_test {

std::string Text(const Element& element) {
  std::string text;
  for (const Tensor& t : element) StrAppend(&text, text.empty() ? "" : " ; ", t.DebugString());
  return text;
}

std::vector<std::string> Rest(DatasetIterator* it, int most = 1000) {
  std::vector<std::string> all;
  Element element;
  for (int i = 0; i < most; ++i) {
    const absl::StatusOr<bool> more = it->Next(&element);
    BOOST_REQUIRE_MESSAGE(more.ok(), more.status());
    if (!*more) break;
    all.push_back(Text(element));
  }
  return all;
}
std::vector<std::string> All(const Dataset& set, int most = 1000) {
  const auto it = set.Iterate();
  BOOST_REQUIRE_MESSAGE(it.ok(), it.status());
  return Rest(it->get(), most);
}

// Saves after each of the first elements, and goes on from there.
void CheckPositions(const Dataset& set, int most = 40) {
  const std::vector<std::string> all = All(set, most);
  const auto it = set.Iterate();
  BOOST_REQUIRE(it.ok());
  for (size_t n = 0; n <= all.size(); ++n) {
    const ResourceState position = (*it)->Save();
    // It may stand in a checkpoint: each name is there once.
    std::set<std::string> names;
    for (const auto& [name, tensor] : position.tensors) BOOST_TEST(names.insert(name).second, name);
    const auto other = set.Iterate(position);
    BOOST_REQUIRE_MESSAGE(other.ok(), other.status());
    const std::vector<std::string> rest = Rest(other->get(), most - static_cast<int>(n));
    BOOST_TEST(rest == std::vector<std::string>(all.begin() + static_cast<std::ptrdiff_t>(n), all.end()),
               boost::test_tools::per_element());
    Element element;
    const auto more = (*it)->Next(&element);
    BOOST_REQUIRE_MESSAGE(more.ok(), more.status());
  }
}

int64_t Number(const Element& element) { return element[0].scalar<int64_t>(); }
std::vector<int64_t> Numbers(const Dataset& set, int most = 1000) {
  std::vector<int64_t> numbers;
  const auto it = set.Iterate();
  BOOST_REQUIRE_MESSAGE(it.ok(), it.status());
  Element element;
  for (int i = 0; i < most; ++i) {
    const auto more = (*it)->Next(&element);
    BOOST_REQUIRE_MESSAGE(more.ok(), more.status());
    if (!*more) break;
    numbers.push_back(Number(element));
  }
  return numbers;
}
using Ints = std::vector<int64_t>;

absl::StatusOr<Element> Square(Element in) { return Element{Tensor::Scalar<int64_t>(Number(in) * Number(in))}; }

// "mem://" files: three of records, of lines and of pieces of four bytes.
std::vector<std::string> WriteFiles(const std::string& kind) {
  std::vector<std::string> paths;
  for (int f = 0; f < 3; ++f) {
    paths.push_back(StrCat("mem://dataset_", kind, f));
    std::string text = "head";
    const auto writer = files::RecordWriter::Create(paths.back());
    BOOST_REQUIRE(writer.ok());
    for (int i = 0; i < 5; ++i) {
      const std::string record = StrCat("r", f, "/", i);
      if (kind == "records") BOOST_REQUIRE((*writer)->Write(record).ok());
      text += kind == "lines" ? record + (i % 2 == 0 ? "\n" : "\r\n") : record;
    }
    BOOST_REQUIRE((*writer)->Close().ok());
    if (kind == "lines") BOOST_REQUIRE(files::Write(paths.back(), text.substr(4, text.size() - 5)).ok());
    if (kind == "pieces") BOOST_REQUIRE(files::Write(paths.back(), text + "end").ok());
  }
  return paths;
}

std::vector<std::string> Expected() {
  std::vector<std::string> want;
  for (int f = 0; f < 3; ++f) {
    for (int i = 0; i < 5; ++i) want.push_back(StrCat("string [] [\"r", f, "/", i, "\"]"));
  }
  return want;
}

BOOST_AUTO_TEST_CASE(files_give_their_records_in_order) {
  for (const Dataset& set : {Dataset::Records(WriteFiles("records")), Dataset::TextLines(WriteFiles("lines")),
                             Dataset::FixedLength(WriteFiles("pieces"), 4, 4, 3)}) {
    BOOST_TEST(All(set) == Expected(), boost::test_tools::per_element());
    CheckPositions(set);
  }
}

BOOST_AUTO_TEST_CASE(errors_of_files_name_path_and_place) {
  const std::vector<std::string> paths = WriteFiles("records");
  std::string bytes = *files::Read(paths[1]);
  bytes[45] = static_cast<char>(bytes[45] ^ 4);
  BOOST_REQUIRE(files::Write(paths[1], bytes).ok());
  const auto records = Dataset::Records(paths).Prefetch(2).Iterate();
  Element element;
  absl::StatusOr<bool> more = true;
  int good = 0;
  while ((more = (*records)->Next(&element)).ok() && *more) ++good;
  BOOST_TEST(good == 7);
  BOOST_TEST(absl::IsDataLoss(more.status()), more.status());
  BOOST_TEST(more.status().message().find(paths[1] + ": ") == 0u, more.status());
  BOOST_TEST(more.status().message().find("at byte 40") != std::string::npos, more.status());
  BOOST_TEST((*records)->Next(&element).status() == more.status());  // and again
  const auto cut = Dataset::FixedLength({paths[0]}, 7).Iterate();
  BOOST_TEST(absl::IsDataLoss((*cut)->Next(&element).status()));
  const auto none = Dataset::TextLines({"mem://dataset_none"}).Iterate();
  BOOST_TEST(absl::IsNotFound((*none)->Next(&element).status()));
}

BOOST_AUTO_TEST_CASE(tensors_generators_and_ranges) {
  const Dataset rows = Dataset::FromTensors(
      {Tensor::Of<float>({1, 2, 3, 4}, TensorShape({2, 2})), Tensor::Vector<std::string>({"a", "b"})});
  BOOST_TEST(All(rows) == (std::vector<std::string>{"float32 [2] [1 2] ; string [] [\"a\"]",
                                                    "float32 [2] [3 4] ; string [] [\"b\"]"}));
  CheckPositions(rows);
  BOOST_TEST(Numbers(Dataset::Range(3, 10, 3)) == (Ints{3, 6, 9}));
  BOOST_TEST(Numbers(Dataset::Range(3, -2, -2)) == (Ints{3, 1, -1}));
  const Dataset made = Dataset::FromGenerator([] {
    return [n = 0](Element* element) mutable -> absl::StatusOr<bool> {
      *element = {Tensor::Scalar<int64_t>(n * n)};
      return n++ < 4;
    };
  });
  BOOST_TEST(Numbers(made.Repeat(2)) == (Ints{0, 1, 4, 9, 0, 1, 4, 9}));
  CheckPositions(made.Repeat(2));
}

BOOST_AUTO_TEST_CASE(map_keeps_the_order_with_any_number_of_calls) {
  Ints want;
  for (int64_t i = 0; i < 50; ++i) want.push_back(i * i);
  for (const int calls : {1, 2, 7}) {
    BOOST_TEST(Numbers(Dataset::Range(0, 50).Map(Square, calls)) == want);
    CheckPositions(Dataset::Range(0, 9).Map(Square, calls));
  }
}

BOOST_AUTO_TEST_CASE(what_a_function_says_or_throws_is_the_error) {
  const auto refuse = [](Element in) -> absl::StatusOr<Element> {
    if (Number(in) == 3) return OutOfRange("three");
    if (Number(in) == 5) throw std::runtime_error("five");
    return in;
  };
  for (const int calls : {1, 3}) {
    for (const int64_t first : {0, 4}) {
      const auto it = Dataset::Range(first, 9).Map(refuse, calls).Iterate();
      Element element;
      absl::StatusOr<bool> more = true;
      int good = 0;
      while ((more = (*it)->Next(&element)).ok() && *more) ++good;
      BOOST_TEST(good == (first == 0 ? 3 : 1));
      BOOST_TEST((first == 0 ? absl::IsOutOfRange(more.status()) : absl::IsInternal(more.status())), more.status());
    }
  }
}

// What is said of the elements until the error, and after it.
std::vector<std::string> Said(DatasetIterator* it, int most) {
  std::vector<std::string> said;
  for (int i = 0; i < most; ++i) {
    Element element;
    const absl::StatusOr<bool> more = it->Next(&element);
    said.push_back(!more.ok() ? "error" : *more ? Text(element) : "end");
    if (said.back() == "end" || said.back() == "error") break;
  }
  return said;
}

// However far a stage has run ahead when the position is taken: no element is left out in silence.
BOOST_AUTO_TEST_CASE(an_element_that_failed_comes_again) {
  const auto fails = [](Element in) -> absl::StatusOr<Element> {
    if (Number(in) == 5) return InvalidArgument("five");
    return in;
  };
  const auto refuses = [](const Element& in) -> absl::StatusOr<bool> {
    if (Number(in) == 5) return InvalidArgument("five");
    return true;
  };
  const auto opens = [](const Element& in) -> absl::StatusOr<Dataset> {
    if (Number(in) == 5) return InvalidArgument("five");
    return Dataset::FromTensors({Tensor::Vector<int64_t>({Number(in), -Number(in)})});
  };
  const Dataset ten = Dataset::Range(0, 10), mapped = ten.Map(fails);
  const std::vector<Dataset> sets = {
      mapped,
      mapped.Prefetch(8),
      mapped.Batch(4),
      mapped.Batch(4).Prefetch(3),
      ten.Map(fails, 4),
      ten.Map(fails, 4).Prefetch(8),
      mapped.Map(Square, 8),
      mapped.Shuffle(4, 1),
      ten.Filter(refuses).Prefetch(8),
      ten.Interleave(opens, 2, 1),
      ten.Interleave(opens, 2, 1).Prefetch(8),
      Dataset::Zip({ten, mapped}),
      mapped.Repeat(2).Batch(3).Prefetch(2),
  };
  for (size_t i = 0; i < sets.size(); ++i) {
    const auto whole = sets[i].Iterate();
    BOOST_REQUIRE(whole.ok());
    const std::vector<std::string> all = Said(whole->get(), 50);
    BOOST_TEST(all.back() == "error", "set " << i);
    for (size_t n = 0; n <= all.size(); ++n) {
      const auto it = sets[i].Iterate();
      BOOST_REQUIRE(it.ok());
      (void)Said(it->get(), static_cast<int>(n));
      const auto other = sets[i].Iterate((*it)->Save());
      BOOST_REQUIRE_MESSAGE(other.ok(), other.status());
      const size_t from = std::min(n, all.size() - 1);
      BOOST_TEST(Said(other->get(), 50) ==
                     std::vector<std::string>(all.begin() + static_cast<std::ptrdiff_t>(from), all.end()),
                 "set " << i << " from " << n);
    }
  }
}

// What was wrong has been put right when the iteration goes on.
BOOST_AUTO_TEST_CASE(a_position_behind_an_error_goes_on_with_the_element) {
  const auto broken = std::make_shared<std::atomic<bool>>(true);
  const Dataset set = Dataset::Range(0, 6)
                          .Map([broken](Element in) -> absl::StatusOr<Element> {
                            if (*broken && Number(in) == 2) return DataLoss("two");
                            return in;
                          })
                          .Batch(2)
                          .Prefetch(4);
  const auto it = set.Iterate();
  BOOST_REQUIRE(it.ok());
  BOOST_TEST(Said(it->get(), 9).size() == 2u);
  const ResourceState position = (*it)->Save();
  *broken = false;
  const auto other = set.Iterate(position);
  BOOST_REQUIRE(other.ok());
  BOOST_TEST(Rest(other->get()).size() == 2u);
}

BOOST_AUTO_TEST_CASE(a_generator_that_cannot_be_made_is_an_error) {
  const Dataset set = Dataset::FromGenerator([]() -> Dataset::Generator { throw std::runtime_error("no"); });
  BOOST_TEST(absl::IsInternal(set.Iterate().status()));
  for (const Dataset& behind : {set.Repeat(2), set.Repeat(2).Prefetch(2), set.Repeat().Map(Square, 2).Prefetch(2)}) {
    const auto it = behind.Iterate();
    BOOST_REQUIRE(it.ok());
    Element element;
    BOOST_TEST(absl::IsInternal((*it)->Next(&element).status()));
  }
}

BOOST_AUTO_TEST_CASE(ranges_may_have_far_ends) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
  BOOST_TEST(Numbers(Dataset::Range(0, kMost, 2), 3) == (Ints{0, 2, 4}));
  BOOST_TEST(Numbers(Dataset::Range(-2, kMost), 3) == (Ints{-2, -1, 0}));
  BOOST_TEST(Numbers(Dataset::Range(kLeast, kMost, kMost)) == (Ints{kLeast, -1, kMost - 1}));
  BOOST_TEST(Numbers(Dataset::Range(kMost, kLeast, kLeast)) == (Ints{kMost, -1}));
  BOOST_TEST(Numbers(Dataset::Range(5, 5, -1)).empty());
}

BOOST_AUTO_TEST_CASE(take_skip_shard_and_filter_count_elements) {
  const Dataset ten = Dataset::Range(0, 10);
  BOOST_TEST(Numbers(ten.Take(3)) == (Ints{0, 1, 2}));
  BOOST_TEST(Numbers(ten.Skip(7)) == (Ints{7, 8, 9}));
  BOOST_TEST(Numbers(ten.Shard(4, 1)) == (Ints{1, 5, 9}));
  const auto odd = [](const Element& e) -> absl::StatusOr<bool> { return Number(e) % 2 == 1; };
  BOOST_TEST(Numbers(ten.Filter(odd)) == (Ints{1, 3, 5, 7, 9}));
  for (const Dataset& set : {ten.Take(3), ten.Skip(7), ten.Shard(4, 1), ten.Filter(odd)}) CheckPositions(set);
}

BOOST_AUTO_TEST_CASE(shuffling_draws_from_its_buffer_by_its_seed) {
  const Dataset set = Dataset::Range(0, 30).Shuffle(8, 5);
  const Ints once = Numbers(set);
  BOOST_TEST(Numbers(set) == once);
  BOOST_TEST(Numbers(Dataset::Range(0, 30).Shuffle(8, 6)) != once);
  Ints sorted = once;
  std::sort(sorted.begin(), sorted.end());
  BOOST_TEST(sorted == Numbers(Dataset::Range(0, 30)));
  BOOST_TEST(once != sorted);
  // An element can come at most as early as the buffer reaches.
  for (size_t i = 0; i < once.size(); ++i) BOOST_TEST(once[i] < static_cast<int64_t>(i) + 8);
  CheckPositions(set);
  // Each repetition has its own order.
  const Ints twice = Numbers(set.Repeat(2));
  BOOST_TEST(Ints(twice.begin(), twice.begin() + 30) != Ints(twice.begin() + 30, twice.end()));
  const Ints same = Numbers(Dataset::Range(0, 30).Shuffle(8, 5, false).Repeat(2));
  BOOST_TEST(Ints(same.begin(), same.begin() + 30) == Ints(same.begin() + 30, same.end()));
  CheckPositions(set.Repeat());
}

BOOST_AUTO_TEST_CASE(every_place_of_a_buffer_is_drawn_as_often) {
  std::vector<int> counts(10);
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    ++counts[static_cast<size_t>(Numbers(Dataset::Range(0, 10).Shuffle(10, seed), 1)[0])];
  }
  for (const int n : counts) BOOST_TEST((n > 140 && n < 260), n);
}

BOOST_AUTO_TEST_CASE(batches_stack_and_fill_up) {
  BOOST_TEST(All(Dataset::Range(0, 5).Batch(2)) ==
             (std::vector<std::string>{"int64 [2] [0 1]", "int64 [2] [2 3]", "int64 [1] [4]"}));
  BOOST_TEST(All(Dataset::Range(0, 5).Batch(2, true)).size() == 2u);
  const Dataset ragged = Dataset::Range(1, 4).Map([](Element in) -> absl::StatusOr<Element> {
    const int64_t n = Number(in);
    Tensor t(DType::kInt64, TensorShape({n, 2}));
    for (int64_t i = 0; i < 2 * n; ++i) t.data<int64_t>()[i] = 10 * n + i;
    Tensor words(DType::kString, TensorShape({n}));
    for (int64_t i = 0; i < n; ++i) words.data<std::string>()[i] = StrCat("w", i);
    return Element{t, words};
  });
  BOOST_TEST(
      All(ragged.PaddedBatch(2)) ==
      (std::vector<std::string>{"int64 [2,2,2] [10 11 0 0 20 21 22 23] ; string [2,2] [\"w0\" \"\" \"w0\" \"w1\"]",
                                "int64 [1,3,2] [30 31 32 33 34 35] ; string [1,3] [\"w0\" \"w1\" \"w2\"]"}));
  BOOST_TEST(All(ragged.Take(1).PaddedBatch(1, {PartialTensorShape{2, 3}})) ==
             (std::vector<std::string>{"int64 [1,2,3] [10 11 0 0 0 0] ; string [1,1] [\"w0\"]"}));
  CheckPositions(ragged.PaddedBatch(2));
  Element element;
  const auto unequal = ragged.Batch(2).Iterate();
  BOOST_TEST(absl::IsInvalidArgument((*unequal)->Next(&element).status()));
  const auto larger = ragged.PaddedBatch(2, {PartialTensorShape{1, 2}}).Iterate();
  BOOST_TEST(absl::IsInvalidArgument((*larger)->Next(&element).status()));
}

BOOST_AUTO_TEST_CASE(interleaving_takes_turns) {
  const auto set_of = [](const Element& e) -> absl::StatusOr<Dataset> {
    return Dataset::Range(10 * Number(e), 10 * Number(e) + Number(e));
  };
  const Dataset set = Dataset::Range(1, 5).Interleave(set_of, 2, 2);
  // What TensorFlow's tf.data gives for it.
  BOOST_TEST(Numbers(set) == (Ints{10, 20, 21, 30, 31, 32, 40, 41, 42, 43}));
  CheckPositions(set);
  CheckPositions(Dataset::Range(0, 6).Interleave(set_of, 3));
  // Sets that have the same keys as the place in which they stand.
  CheckPositions(Dataset::Range(0, 3).Interleave(
      [](const Element& in) -> absl::StatusOr<Dataset> { return Dataset::Range(0, Number(in)).Repeat(2); }, 2, 1));
}

BOOST_AUTO_TEST_CASE(zip_prefetch_and_cache_change_no_value) {
  const Dataset zip = Dataset::Zip({Dataset::Range(0, 4), Dataset::Range(10, 13)});
  BOOST_TEST(All(zip) == (std::vector<std::string>{"int64 [] [0] ; int64 [] [10]", "int64 [] [1] ; int64 [] [11]",
                                                   "int64 [] [2] ; int64 [] [12]"}));
  CheckPositions(zip);
  for (const int n : {1, 3, 50}) {
    BOOST_TEST(Numbers(Dataset::Range(0, 20).Prefetch(n)) == Numbers(Dataset::Range(0, 20)));
    CheckPositions(Dataset::Range(0, 9).Prefetch(n));
  }
  auto calls = std::make_shared<std::atomic<int>>(0);
  const auto count = [calls](Element in) -> absl::StatusOr<Element> {
    ++*calls;
    return in;
  };
  const Dataset cached = Dataset::Range(0, 5).Map(count).Cache().Repeat(3);
  BOOST_TEST(Numbers(cached) == (Ints{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
  BOOST_TEST(*calls == 5);
  CheckPositions(Dataset::Range(0, 5).Cache().Repeat(2));
}

BOOST_AUTO_TEST_CASE(a_whole_pipeline_goes_on_where_it_was) {
  const Dataset set = Dataset::Records(WriteFiles("records"))
                          .Shuffle(4, 3)
                          .Repeat(2)
                          .Map([](Element in) -> absl::StatusOr<Element> { return in; }, 3)
                          .Batch(4)
                          .Prefetch(2);
  BOOST_TEST(All(set).size() == 8u);
  CheckPositions(set);
}

BOOST_AUTO_TEST_CASE(a_position_of_something_else_is_refused) {
  const auto it = Dataset::Range(0, 5).Iterate();
  BOOST_TEST(absl::IsInvalidArgument(Dataset::Range(0, 5).Shuffle(2, 1).Iterate((*it)->Save()).status()));
  BOOST_TEST(absl::IsInvalidArgument(Dataset::Range(0, 5).Iterate(ResourceState{"variable", {}}).status()));
  ResourceState wrong = (*it)->Save();
  wrong.tensors[0].second = Tensor::Scalar<int64_t>(-1);
  BOOST_TEST(absl::IsInvalidArgument(Dataset::Range(0, 5).Iterate(wrong).status()));
}

BOOST_AUTO_TEST_CASE(descriptions_that_make_no_sense_are_refused) {
  const Dataset five = Dataset::Range(0, 5);
  const auto same = [](Element e) -> absl::StatusOr<Element> { return e; };
  const auto one = [](const Element&) -> absl::StatusOr<Dataset> { return Dataset::Range(0, 1); };
  for (const Dataset& set :
       {five.Batch(0), five.Batch(-1), five.PaddedBatch(0), five.Shuffle(0, 1), five.Shuffle(-1, 1), five.Prefetch(-1),
        five.Shard(2, 2), five.Shard(2, -1), five.Shard(0, 0), five.Map(same, 0), five.Map(same, -1),
        Dataset::Range(0, 1, 0), Dataset::FixedLength({}, 0), Dataset::FromTensors({Tensor::Scalar(1)}),
        five.Interleave(one, 0), five.Interleave(one, 1, 0)}) {
    const absl::Status s = set.Iterate().status();
    BOOST_TEST(absl::IsInvalidArgument(s), s);
    BOOST_TEST(s.message().find(" at dataset_test.cc:") != std::string::npos, s);
    BOOST_TEST(absl::IsInvalidArgument(set.Batch(2).Repeat().Iterate().ok()
                                           ? [&] {
                                               Element e;
                                               return (*set.Repeat().Iterate())->Next(&e).status();
                                             }()
                                           : set.Batch(2).Iterate().status()));
  }
  BOOST_TEST(Numbers(five.Take(0).Repeat()).empty());  // nothing, for ever, ends
}

BOOST_AUTO_TEST_CASE(counts_below_one_mean_what_they_do_in_tensorflow) {
  const Dataset three = Dataset::Range(0, 3);
  const std::vector<int64_t> all = {0, 1, 2}, none;
  BOOST_TEST(Numbers(three.Take(-1)) == all);
  BOOST_TEST(Numbers(three.Take(-7)) == all);
  BOOST_TEST(Numbers(three.Take(9)) == all);
  BOOST_TEST(Numbers(three.Skip(-1)) == none);
  BOOST_TEST(Numbers(three.Skip(0)) == all);
  BOOST_TEST(Numbers(three.Skip(9)) == none);
  BOOST_TEST(Numbers(three.Repeat(0)) == none);
  BOOST_TEST(Numbers(three.Repeat(-1).Take(4)) == (std::vector<int64_t>{0, 1, 2, 0}));
  BOOST_TEST(Numbers(three.Prefetch(0)) == all);
  CheckPositions(three.Repeat(2).Take(-1).Prefetch(0).Batch(2));
}

BOOST_AUTO_TEST_CASE(elements_of_no_bytes_and_of_no_tensors_are_elements) {
  const Dataset rows = Dataset::FromTensors({Tensor(DType::kFloat, {3, 0})});
  for (const Dataset& set : {rows.Batch(2), rows.PaddedBatch(2), rows.Shuffle(2, 1).Batch(2)}) {
    const auto it = *set.Iterate();
    Element e;
    BOOST_TEST(*it->Next(&e));
    BOOST_TEST(e[0].DebugString() == "float32 [2,0] []");
    BOOST_TEST(*it->Next(&e));
    BOOST_TEST(e[0].DebugString() == "float32 [1,0] []");
    BOOST_TEST(!*it->Next(&e));
  }
  // No rows at all; and elements of no tensors, which must all be so.
  BOOST_TEST(!*(*Dataset::FromTensors({Tensor(DType::kFloat, {0, 2})}).Batch(2).Iterate())->Next([] {
    static Element e;
    return &e;
  }()));
  const auto emptied = [](Element e) -> absl::StatusOr<Element> { return e[0].scalar<int64_t>() == 3 ? e : Element(); };
  const auto it = *Dataset::Range(0, 4).Map(emptied).Batch(2).Iterate();
  Element e = {Tensor::Scalar(1)};
  BOOST_TEST(*it->Next(&e));
  BOOST_TEST(e.empty());
  BOOST_TEST(absl::IsInvalidArgument(it->Next(&e).status()));
}

}  // namespace dataset_test
}  // namespace troupe
