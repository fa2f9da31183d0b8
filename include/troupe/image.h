// Images before a model sees them: parts, mirrors, light and colour, in fixed and in random forms.
//
// Images have shape [height, width, channels], or [batch, height, width, channels]: then all of a
// batch get the same. Sizes need not be known before the step. Light and colour are of floating
// type, with values of [0, 1]. Random forms draw anew in each step; equal seeds draw equal numbers,
// and seed 0 draws numbers that nobody can foresee.
//
// Source of the semantics: tf.image of TensorFlow 1. Errors (of the scope, where the sizes are
// known; else of the step, INVALID_ARGUMENT): a box that is not inside the image, an image of
// another rank, a fraction that is none.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_IMAGE_H_
#define TROUPE_IMAGE_H_

#include "troupe/export.h"
#include "troupe/scope.h"

namespace troupe {
namespace TROUPE_EXPORT image {

// The part of `height` x `width` pixels whose upper left corner is at (y, x).
Output CropToBoundingBox(const ScopeAt& at, const Output& image, int64_t y, int64_t x, int64_t height, int64_t width);
// The middle part of `fraction` (of (0, 1]) of the height and of the width.
Output CentralCrop(const ScopeAt& at, const Output& image, double fraction);
// An image of `height` x `width` pixels, zeros but for `image`, whose upper left corner is at
// (y, x).
Output PadToBoundingBox(const ScopeAt& at, const Output& image, int64_t y, int64_t x, int64_t height, int64_t width);

// Mirrored about the vertical middle line, and about the horizontal one.
Output FlipLeftRight(const ScopeAt& at, const Output& image);
Output FlipUpDown(const ScopeAt& at, const Output& image);
// In half of the steps.
Output RandomFlipLeftRight(const ScopeAt& at, const Output& image, int64_t seed = 0);
Output RandomFlipUpDown(const ScopeAt& at, const Output& image, int64_t seed = 0);

// Plus a number of [-max_delta, max_delta).
Output RandomBrightness(const ScopeAt& at, const Output& image, double max_delta, int64_t seed = 0);
// By a factor of [lower, upper): of the distance from the mean, and of the saturation.
Output RandomContrast(const ScopeAt& at, const Output& image, double lower, double upper, int64_t seed = 0);
Output RandomSaturation(const ScopeAt& at, const Output& image, double lower, double upper, int64_t seed = 0);
// Hue turned by a number of [-max_delta, max_delta), max_delta of [0, 0.5].
Output RandomHue(const ScopeAt& at, const Output& image, double max_delta, int64_t seed = 0);

// Three channels as one, weighted as eyes do, and one channel three times.
Output RgbToGrayscale(const ScopeAt& at, const Output& image);
Output GrayscaleToRgb(const ScopeAt& at, const Output& image);
// Each image with mean 0 and standard deviation 1; the deviation counts as at least 1 / sqrt(n) of
// n numbers.
Output PerImageStandardization(const ScopeAt& at, const Output& image);

}  // namespace image
}  // namespace troupe

#endif  // TROUPE_IMAGE_H_
