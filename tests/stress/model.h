// A random graph, and what it must come to, computed by plain C++ without the library.
//
// All values are whole numbers in doubles, small enough to be exact, so every order of computing
// gives the same bits.
//
//   fetch        what                                                                            on devices
//   plain        arithmetic of feeds and constants; reductions                                   random, each node
//   loop         While, also nested, over its own and captured values                            body random
//   branch       Cond                                                                            random
//   act          a misbehaving kernel with arithmetic before and behind it; in a loop or branch, too
//   big          tensors of 160 KB that cross devices
//   counter      a variable read, updated by one and read again, in this order
//   whole        a vector that is added to as a whole: a read that is torn shows
//   noise        random numbers with a fixed seed
//   late         depends on the placeholder "late" (partial runs)
//   bad          kernels that cannot be made, or give another type
//
// Thread rule: built on one thread; const methods from any.
#ifndef TROUPE_TESTS_STRESS_MODEL_H_
#define TROUPE_TESTS_STRESS_MODEL_H_

#include <functional>
#include <string>
#include <vector>

#include "tests/stress/draw.h"
#include "troupe/troupe.h"

namespace troupe::stress {

using Value = std::vector<double>;

struct Inputs {
  double x = 0;
  int64_t n = 0;  // turns of loops
  Value v;
  double late = 0;
  int64_t how = 0, call = 0;
};

enum class Kind { kPlain, kLoop, kBranch, kAct, kBig, kCounter, kWhole, kNoise, kLate, kBadBirth, kWrongType };
const char* NameOf(Kind kind);

class Model {
 public:
  struct Fetch {
    Kind kind;
    std::string name;
    int node = -1;      // its number, where the value is known
    bool sync = false;  // kAct: which kernel
    // kAct: how often it runs
    enum class Where { kOnce, kInLoop, kInBranch } where = Where::kOnce;
    bool extension = false;  // of the nodes that come by a second Extend
  };
  // The ways in which parts of models may be left out.
  struct Options {
    int devices = 1;
    bool variables = true, noise = true, bad = true, acts = true;
  };
  Model(Draw draw, const Options& options);
  // More nodes in the same graph; what was fetched before stays what it was.
  void Grow();

  const Graph& graph() const { return *root_.graph(); }
  absl::Status status() const { return root_.status(); }
  const std::vector<Fetch>& fetches() const { return fetches_; }
  const std::string& init() const { return init_; }        // "" without variables
  const std::string& counter() const { return counter_; }  // a read of it alone
  int64_t noise_seed() const { return noise_seed_; }
  int vector_length() const { return length_; }

  // In the order of FeedNames.
  static Names FeedNames() { return {"x", "n", "v", "how", "call", "late"}; }
  static std::vector<Tensor> FeedValues(const Inputs& in);
  static Feeds FeedsOf(const Inputs& in);
  // Values of fetches that have a `node`.
  Value Expected(const Fetch& fetch, const Inputs& in) const;
  // How often the misbehaving kernel of a fetch runs.
  static int64_t TimesRun(const Fetch& fetch, const Inputs& in);

 private:
  struct Memo;
  using Eval = std::function<Value(Memo&)>;
  struct Known {
    Output out;
    int node = -1;
    int length = 1;
    double bound = 0;
  };
  Known Keep(const Output& out, int length, double bound, Eval eval);
  Scope Somewhere(const Scope& scope);
  Known Small(Known a);
  Known Arithmetic();
  Known Loop(bool act, bool sync);
  Known Branch(bool act, bool sync);
  Known ActOn(const Scope& scope, const Known& a, bool sync);
  void AddBig();
  void AddVariables();
  void AddNoise();
  Fetch& AddFetch(Kind kind, const Known& k);

  Draw draw_;
  const Options options_;
  const int length_;
  Scope root_ = Scope::NewRootScope();
  Output n_, how_, call_;
  std::vector<Eval> evals_;
  std::vector<Known> pool_;
  std::vector<Fetch> fetches_;
  std::string init_, counter_;
  int64_t noise_seed_ = 0;
  bool growing_ = false;
};

}  // namespace troupe::stress

#endif  // TROUPE_TESTS_STRESS_MODEL_H_
