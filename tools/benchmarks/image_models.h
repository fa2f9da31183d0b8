// The networks of images among the models of models.h.
//
//   resnet50       residual blocks of 3, 4, 6 and 3, 8 images of 224x224, momentum
//   mobilenetv2    inverted residuals with convolutions by channel, the same images, momentum
//
// Batches are normalised by their own mean and variance, and the moving ones are updated, as in
// training. Windows are placed as TensorFlow's SAME places them.
//
// Thread rule: one thread at a time.
#ifndef TROUPE_TOOLS_BENCHMARKS_IMAGE_MODELS_H_
#define TROUPE_TOOLS_BENCHMARKS_IMAGE_MODELS_H_

#include "tools/benchmarks/models.h"

namespace troupe::bench {

// He et al. (2015), with the stride in the middle of a block's three convolutions.
TrainingModel ResNet50(const Scope& root, const GradientOptions& gradients);

// Sandler et al. (2018).
TrainingModel MobileNetV2(const Scope& root, const GradientOptions& gradients);

}  // namespace troupe::bench

#endif  // TROUPE_TOOLS_BENCHMARKS_IMAGE_MODELS_H_
