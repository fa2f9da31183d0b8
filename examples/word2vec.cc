// Word vectors from text (Mikolov et al., 2013): a word's vector is trained to tell the words that
// stand near it from words that are drawn at random. A step reads and writes the rows of the words
// that it meets, however many words there are.
//
//   word2vec TEXT [STEPS [FOLDER]]     with FOLDER, the vectors are saved there
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>

#include "troupe/files.h"
#include "troupe/train/adagrad.h"
#include "troupe/train/sampled_loss.h"
#include "troupe/train/saver.h"
#include "troupe/troupe.h"

using namespace troupe;

constexpr int64_t kMostWords = 20000, kWidth = 64, kBatch = 128, kSampled = 64;
constexpr int kWindow = 2;

// The text as numbers of words, the most frequent word first; 0 stands for all that are rare.
struct Corpus {
  std::vector<std::string> words = {"<rare>"};
  std::vector<int64_t> text;
};

absl::StatusOr<Corpus> ReadCorpus(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(const std::string text, files::Read(path));
  std::vector<std::string> all;
  std::map<std::string, int64_t> counts;
  std::string word;
  for (size_t i = 0; i <= text.size(); ++i) {
    const unsigned char c = i < text.size() ? text[i] : ' ';
    if (std::isalpha(c) != 0) {
      word += static_cast<char>(std::tolower(c));
    } else if (!word.empty()) {
      ++counts[word];
      all.push_back(std::move(word));
      word.clear();
    }
  }
  std::vector<std::pair<int64_t, std::string>> by_count;
  for (const auto& [w, count] : counts) {
    if (count > 1) by_count.emplace_back(-count, w);
  }
  std::sort(by_count.begin(), by_count.end());
  Corpus corpus;
  std::map<std::string, int64_t> number;
  for (const auto& [count, w] : by_count) {
    if (static_cast<int64_t>(corpus.words.size()) == kMostWords) break;
    number[w] = static_cast<int64_t>(corpus.words.size());
    corpus.words.push_back(w);
  }
  for (const std::string& w : all) {
    const auto found = number.find(w);
    corpus.text.push_back(found == number.end() ? 0 : found->second);
  }
  if (corpus.text.size() < 100 || static_cast<int64_t>(corpus.words.size()) <= kSampled)
    return InvalidArgument(path, " has too few words to learn from");
  return corpus;
}

// The words whose vectors point in the most similar direction.
std::vector<std::string> Nearest(const Corpus& corpus, const Tensor& vectors, int64_t to) {
  const float* const v = vectors.data<float>();
  const auto dot = [&](int64_t a, int64_t b) {
    double sum = 0;
    for (int64_t k = 0; k < kWidth; ++k) sum += static_cast<double>(v[a * kWidth + k]) * v[b * kWidth + k];
    return sum;
  };
  std::vector<std::pair<double, int64_t>> near;
  for (int64_t w = 1; w < vectors.dim(0); ++w) {
    if (w != to) near.emplace_back(-dot(w, to) / std::sqrt(dot(w, w)), w);
  }
  std::partial_sort(near.begin(), near.begin() + std::min<size_t>(4, near.size()), near.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min<size_t>(4, near.size()); ++i) names.push_back(corpus.words[near[i].second]);
  return names;
}

absl::Status Train(const std::string& path, int steps, const std::string& folder) {
  TROUPE_ASSIGN_OR_RETURN(const Corpus corpus, ReadCorpus(path));
  const auto words = static_cast<int64_t>(corpus.words.size());
  std::printf("%zu words of text, %lld different ones\n", corpus.text.size(), static_cast<long long>(words));

  Scope root = Scope::NewRootScope();
  Output centres = ops::Placeholder(root.WithOpName("centres"), DType::kInt64, {.shape = {kBatch}});
  Output neighbours = ops::Placeholder(root.WithOpName("neighbours"), DType::kInt64, {.shape = {kBatch, 1}});
  Variable vectors(root.WithOpName("vectors"), init::RandomUniform(-1, 1, 1)(root, {words, kWidth}, DType::kFloat));
  Variable weights(root.WithOpName("weights"), init::TruncatedNormal(0, 1 / std::sqrt(static_cast<double>(kWidth)), 2)(
                                                   root, {words, kWidth}, DType::kFloat));
  Variable biases(root.WithOpName("biases"), init::Zeros()(root, {words}, DType::kFloat));
  Output inputs = train::EmbeddingLookup(root, vectors, centres);
  train::SampledLossOptions options;
  options.seed = 3;
  Output loss =
      ops::Mean(root, train::NceLoss(root, {weights}, {biases}, neighbours, inputs, kSampled, words, options));
  Operation step = train::Adagrad(0.5f).Minimize(root, loss);
  Operation init = GlobalVariablesInitializer(root);
  TROUPE_RETURN_IF_ERROR(root.status());

  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create());
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  TROUPE_RETURN_IF_ERROR(session->Run({}, {}, {init}, nullptr));
  TROUPE_ASSIGN_OR_RETURN(Callable run, session->Prepare({centres, neighbours}, {loss}, {step}));

  // Pairs of a word and one that stands at most kWindow words from it.
  std::mt19937 random(4);
  const auto below = [&](size_t n) { return static_cast<size_t>(random()) % n; };
  double sum = 0;
  const int report = std::max(1, steps / 10);
  for (int i = 1; i <= steps; ++i) {
    Tensor x(DType::kInt64, {kBatch}), y(DType::kInt64, {kBatch, 1});
    for (int64_t k = 0; k < kBatch; ++k) {
      const size_t at = kWindow + below(corpus.text.size() - 2 * kWindow);
      const size_t away = 1 + below(kWindow);
      x.data<int64_t>()[k] = corpus.text[at];
      y.data<int64_t>()[k] = corpus.text[below(2) == 0 ? at - away : at + away];
    }
    std::vector<Tensor> out;
    TROUPE_RETURN_IF_ERROR(run.Run({x, y}, &out));
    sum += out[0].scalar<float>();
    if (i % report != 0) continue;
    std::printf("step %d: loss %.4f\n", i, sum / report);
    sum = 0;
  }
  TROUPE_ASSIGN_OR_RETURN(const Tensor trained, session->Get(vectors));
  for (int64_t w = 1; w < std::min<int64_t>(9, words); ++w)
    std::printf("%s: %s\n", corpus.words[w].c_str(), StrJoin(Nearest(corpus, trained, w), ", ").c_str());
  if (folder.empty()) return absl::OkStatus();
  return train::Saver(root).Save(*session, folder + "/word2vec", steps).status();
}

int main(int argc, char** argv) {
  const int steps = argc > 2 ? std::atoi(argv[2]) : 2000;
  if (argc < 2 || argc > 4 || steps < 1) {
    std::fprintf(stderr, "usage: word2vec TEXT [STEPS [FOLDER]]\n");
    return 2;
  }
  const absl::Status s = Train(argv[1], steps, argc > 3 ? argv[3] : "");
  if (!s.ok()) std::fprintf(stderr, "%s\n", s.ToString().c_str());
  return s.ok() && std::fflush(stdout) == 0 ? 0 : 1;  // output that is lost is a failure, too
}
