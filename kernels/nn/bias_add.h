// What BiasAdd and BiasAddV1 share.
#ifndef TROUPE_KERNELS_NN_BIAS_ADD_H_
#define TROUPE_KERNELS_NN_BIAS_ADD_H_

#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe {

// True when attr data_format says that the channels are dimension 1.
inline bool ChannelsFirst(const Node& node) {
  const absl::StatusOr<std::string> format = node.Attr<std::string>("data_format");
  return format.ok() && format->rfind("NC", 0) == 0;
}

absl::Status BiasAddShape(InferenceContext& c, bool channels_first);

class BiasAddKernel {
 public:
  BiasAddKernel(KernelInit& init, bool channels_first) : dtype_(init.input_type(0)), channels_first_(channels_first) {}
  absl::Status Compute(KernelContext& ctx);

 private:
  const DType dtype_;
  const bool channels_first_;
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_BIAS_ADD_H_
