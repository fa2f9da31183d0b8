// Losses over many classes of which a step computes a few: the true ones, and some that are drawn.
//
// weights [classes, n] and biases [classes] are tables (a Variable, or parts of one), of which the
// rows of these classes are read; their gradients are sparse. Training uses these losses; a test
// computes all logits: inputs * transpose(weights) + biases.
//
// Source of the semantics: tf.nn.nce_loss, sampled_softmax_loss and the candidate samplers of
// tf.random (log_uniform_candidate_sampler and so on). Inputs, weights and biases are of one
// floating type. Errors are the scope's.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_TRAIN_SAMPLED_LOSS_H_
#define TROUPE_TRAIN_SAMPLED_LOSS_H_

#include <vector>

#include "troupe/export.h"
#include "troupe/train/embedding.h"

namespace troupe {
namespace TROUPE_EXPORT train {

// What a candidate sampler gives.
struct SampledClasses {
  Output classes;           // int64 [num_sampled]
  Output expected_true;     // float32 [batch, num_true]: how often each is expected among the draws
  Output expected_sampled;  // float32 [num_sampled]
};
enum class ClassSampler {
  kLogUniform,  // of classes by falling frequency, as of words
  kUniform,
  // Of classes by how often they have been labels of this op, and once more.
  kLearnedUnigram,
  kAll,  // every class once; num_sampled is num_classes
};
// `labels` int64 [batch, num_true]. With seed 0 each session draws other classes.
SampledClasses SampleClasses(const ScopeAt& at, const Output& labels, int64_t num_true, int64_t num_sampled,
                             int64_t num_classes, ClassSampler sampler = ClassSampler::kLogUniform, bool unique = true,
                             int64_t seed = 0);
// As SampleClasses, of classes in proportion to weight^distortion, where `weights` has one number
// for each class: how often a word is in a text, say.
SampledClasses SampleClassesByWeight(const ScopeAt& at, const Output& labels, int64_t num_true, int64_t num_sampled,
                                     const std::vector<float>& weights, float distortion = 1, bool unique = true,
                                     int64_t seed = 0);

struct SampledLossOptions {
  int64_t num_true = 1;    // columns of the labels
  SampledClasses sampled;  // drawn by LogUniform where it is empty
  int64_t seed = 0;        // of that draw
  // Whether a draw that is a true class of an example counts for it.
  bool remove_accidental_hits = false;
  Parting parting = Parting::kMod;
};

// The loss of each example, [batch], for inputs [batch, n] and labels int64 [batch, num_true].
// Noise-contrastive estimation (Gutmann and Hyvarinen, 2010): each true class against the draws,
// one logistic regression each.
Output NceLoss(const ScopeAt& at, const std::vector<Variable>& weights, const std::vector<Variable>& biases,
               const Output& labels, const Output& inputs, int64_t num_sampled, int64_t num_classes,
               const SampledLossOptions& options = {});
// The softmax over the true and the drawn classes (Jean et al., 2014). Accidental hits are always
// removed.
Output SampledSoftmaxLoss(const ScopeAt& at, const std::vector<Variable>& weights, const std::vector<Variable>& biases,
                          const Output& labels, const Output& inputs, int64_t num_sampled, int64_t num_classes,
                          SampledLossOptions options = {});

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_SAMPLED_LOSS_H_
