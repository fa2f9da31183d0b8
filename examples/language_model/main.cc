// Learns which word, or which character, comes next in a text, with layers of LSTM cells (Zaremba
// et al., 2014); tells the perplexity of another text once an epoch, and then writes text itself.
//
//   language_model --text wikitext-2/valid.txt --test wikitext-2/test.txt --model_dir RUN
//   language_model --characters --text tiny-shakespeare/input.txt --write 1000
//
// The text is cut into streams that are read side by side. A step goes through one window of each;
// the state of the cells goes on from window to window, and begins with zeros in each epoch.
#include <cmath>
#include <cstdio>
#include <random>

#include "examples/common/training.h"
#include "model.h"
#include "text.h"
#include "troupe/files.h"

namespace {

using namespace troupe;  // NOLINT: an example reads better with it
using language_model::Model;
using language_model::Streams;
using language_model::Vocabulary;

struct Flags : example::Flags {
  std::string text, test, start;
  bool characters = false;
  int64_t epochs = 5, words = 10000, batch = 20, time = 35, write = 200;
  language_model::ModelOptions model;
};

std::vector<Tensor> Zeros(const Model& m, int64_t batch, int64_t units) {
  std::vector<Tensor> state;
  for (size_t i = 0; i < m.before.size(); ++i) {
    state.emplace_back(DType::kFloat, TensorShape({batch, units}));
    std::fill_n(state.back().data<float>(), batch * units, 0.0f);
  }
  return state;
}

// What a step is fed, in this order: x, y, training, the state. It gives a value and the state.
class Steps {
 public:
  static absl::StatusOr<Steps> Prepare(Session& session, const Model& m, const Output& value, bool trains) {
    OutputList feeds = {m.x, m.y, m.training}, fetches = {value};
    feeds.insert(feeds.end(), m.before.begin(), m.before.end());
    fetches.insert(fetches.end(), m.after.begin(), m.after.end());
    TROUPE_ASSIGN_OR_RETURN(
        Callable run,
        session.Prepare(feeds, fetches, trains ? NameList({m.train}) : NameList(std::vector<Operation>())));
    return Steps(std::move(run), trains);
  }
  // Replaces the state.
  absl::StatusOr<Tensor> Run(const Tensor& x, const Tensor& y, std::vector<Tensor>* state) const {
    std::vector<Tensor> in = {x, y, Tensor::Scalar(trains_)}, out;
    in.insert(in.end(), state->begin(), state->end());
    TROUPE_RETURN_IF_ERROR(run_.Run(in, &out));
    state->assign(out.begin() + 1, out.end());
    return out[0];
  }

 private:
  Steps(Callable run, bool trains) : run_(std::move(run)), trains_(trains) {}
  Callable run_;
  bool trains_;
};

// Draws one symbol after the other, behind those of `begin`, which are read first.
absl::StatusOr<std::vector<int32_t>> Write(Session& session, const Model& m, const std::vector<int32_t>& begin,
                                           const Flags& flags) {
  TROUPE_ASSIGN_OR_RETURN(const Steps read, Steps::Prepare(session, m, m.next, false));
  std::vector<Tensor> state = Zeros(m, 1, flags.model.units);
  std::mt19937_64 random(static_cast<uint64_t>(flags.seed) + 1);
  std::vector<int32_t> written;
  Tensor likely;
  const auto feed = [&](int32_t symbol) -> absl::Status {
    Tensor one(DType::kInt32, {1, 1});
    one.data<int32_t>()[0] = symbol;
    TROUPE_ASSIGN_OR_RETURN(likely, read.Run(one, one, &state));
    return absl::OkStatus();
  };
  for (const int32_t symbol : begin) TROUPE_RETURN_IF_ERROR(feed(symbol));
  while (static_cast<int64_t>(written.size()) < flags.write) {
    double left = static_cast<double>(random() >> 11) * 0x1p-53;
    int32_t drawn = 0;
    for (; drawn + 1 < likely.num_elements(); ++drawn) {
      left -= static_cast<double>(likely.data<float>()[drawn]);
      if (left < 0) break;
    }
    written.push_back(drawn);
    TROUPE_RETURN_IF_ERROR(feed(drawn));
  }
  return written;
}

// Writes a text to stdout, at the end of the training.
absl::Status WriteMore(Session& session, const Model& m, const Vocabulary& vocabulary, const std::string& test,
                       const Flags& flags) {
  if (flags.json || flags.write < 1) return absl::OkStatus();
  // A state of zeros is rare in training: it goes on with some text, the given one or the test.
  std::vector<int32_t> begin = vocabulary.NumbersOf(flags.start.empty() ? test : flags.start);
  if (begin.size() > 100) begin.resize(100);
  TROUPE_ASSIGN_OR_RETURN(const std::vector<int32_t> written, Write(session, m, begin, flags));
  std::printf("it writes:\n%s%s\n", flags.start.c_str(), vocabulary.TextOf(written).c_str());
  return absl::OkStatus();
}

// The text to learn from, and the one to tell the perplexity of.
absl::Status ReadTexts(const Flags& flags, std::string* text, std::string* test) {
  if (flags.text.empty()) {
    if (!flags.json) std::printf("no --text was given: a text that this program makes up is learned\n");
    *text = language_model::MadeUpText(4000, 1);
    *test = language_model::MadeUpText(400, 2);
    return absl::OkStatus();
  }
  TROUPE_ASSIGN_OR_RETURN(*text, files::Read(flags.text));
  if (flags.test.empty()) {  // the end of the text
    const size_t cut = text->size() - text->size() / 10;
    *test = text->substr(cut);
    text->resize(cut);
  } else {
    TROUPE_ASSIGN_OR_RETURN(*test, files::Read(flags.test));
  }
  return absl::OkStatus();
}

absl::Status Run(Flags flags) {
  std::string text, test;
  TROUPE_RETURN_IF_ERROR(ReadTexts(flags, &text, &test));
  const Vocabulary vocabulary(text, !flags.characters, flags.words);
  const Streams train(vocabulary.NumbersOf(text), flags.batch, flags.time);
  const Streams tests(vocabulary.NumbersOf(test), flags.batch, flags.time);
  if (train.windows() < 1 || tests.windows() < 1) {
    return InvalidArgument("the texts are too short for ", flags.batch, " streams with windows of ", flags.time,
                           " symbols");
  }
  if (flags.steps == 0) flags.steps = flags.epochs * train.windows();
  if (flags.eval_every == 0) flags.eval_every = train.windows();
  if (!flags.json) {
    std::printf("%lld different %s, %lld steps an epoch\n", static_cast<long long>(vocabulary.size()),
                flags.characters ? "characters" : "words", static_cast<long long>(train.windows()));
  }
  const Scope root = Scope::NewRootScope();
  flags.model.symbols = vocabulary.size();
  flags.model.seed = flags.seed;
  const Model m = language_model::Build(root, flags.model);
  TROUPE_RETURN_IF_ERROR(root.status());

  std::vector<Tensor> state = Zeros(m, flags.batch, flags.model.units);
  absl::StatusOr<Steps> learn = Internal("not started"), judge = Internal("not started");
  example::Job job;
  job.unit = flags.characters ? "characters" : "words";
  job.begin = [&](Session& session) { return session.Run({}, {}, {m.init}, nullptr); };
  job.start = [&](Session& session) -> absl::Status {
    learn = Steps::Prepare(session, m, m.loss, true);
    judge = Steps::Prepare(session, m, m.loss, false);
    TROUPE_RETURN_IF_ERROR(learn.status());
    return judge.status();
  };
  job.step = [&](int64_t step, int64_t* units) -> absl::StatusOr<double> {
    const int64_t window = step % train.windows();
    if (window == 0) state = Zeros(m, flags.batch, flags.model.units);
    Tensor x, y;
    train.Window(window, &x, &y);
    *units += x.num_elements();
    TROUPE_ASSIGN_OR_RETURN(const Tensor loss, learn->Run(x, y, &state));
    return static_cast<double>(loss.scalar<float>());
  };
  job.test = [&]() -> absl::StatusOr<example::Numbers> {
    std::vector<Tensor> of_test = Zeros(m, flags.batch, flags.model.units);
    double sum = 0;
    for (int64_t w = 0; w < tests.windows(); ++w) {
      Tensor x, y;
      tests.Window(w, &x, &y);
      TROUPE_ASSIGN_OR_RETURN(const Tensor loss, judge->Run(x, y, &of_test));
      sum += static_cast<double>(loss.scalar<float>());
    }
    return example::Numbers{{"perplexity", std::exp(sum / static_cast<double>(tests.windows()))}};
  };
  const auto key = [](size_t i) { return StrCat("language_model/state", i); };
  job.position = [&] {
    example::NamedTensors all;
    for (size_t i = 0; i < state.size(); ++i) all.emplace_back(key(i), state[i]);
    return all;
  };
  job.set_position = [&](const CheckpointReader& checkpoint) -> absl::Status {
    for (size_t i = 0; i < state.size(); ++i) {
      TROUPE_ASSIGN_OR_RETURN(const Tensor t, checkpoint.Read(key(i)));
      if (t.dtype() != DType::kFloat || t.shape() != state[i].shape()) {
        return InvalidArgument("the checkpoint's state has shape ", t.shape().DebugString(), ", not ",
                               state[i].shape().DebugString(), ": --batch and --units must be those of its run");
      }
      state[i] = t;
    }
    return absl::OkStatus();
  };
  return example::Train(flags, root, job,
                        [&](Session& session) { return WriteMore(session, m, vocabulary, test, flags); });
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Learns a text with LSTM cells, and writes another one", "language_model");
  flags.eval_every = 0;             // an epoch
  example::AddFlags(&app, &flags);  // --steps 0: as many as --epochs
  const auto number = [&](const char* name, int64_t* value, const char* help, int64_t least) {
    app.add_option(name, *value, help)->check(CLI::Range(least, int64_t{1} << 30))->capture_default_str();
  };
  app.add_option("--text", flags.text, "file to learn from; without it a text is made up");
  app.add_option("--test", flags.test, "file to tell the perplexity of; without it the last tenth of the text");
  app.add_flag("--characters", flags.characters, "characters, not words");
  number("--epochs", &flags.epochs, "how often the text is read, where --steps is 0", 1);
  number("--words", &flags.words, "different words, or characters, that are told apart", 2);
  number("--units", &flags.model.units, "of a layer", 1);
  number("--layers", &flags.model.layers, "of cells", 1);
  number("--batch", &flags.batch, "streams", 1);
  number("--time", &flags.time, "symbols of each stream that a step reads", 1);
  number("--write", &flags.write, "symbols to write at the end", 0);
  app.add_option("--start", flags.start, "what it goes on with; without it the beginning of the test");
  app.add_option("--learning_rate", flags.model.learning_rate, "of Adam")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--dropout", flags.model.dropout, "share of units that are dropped")
      ->check(CLI::Range(0.0, 0.95))
      ->capture_default_str();
  app.add_option("--temperature", flags.model.temperature, "below 1: likely symbols are written even more often")
      ->check(CLI::Range(0.01, 100.0))
      ->capture_default_str();
  return example::Main(&app, argc, argv, [&] { return Run(flags); });
}
