// Calls methods of resources that programs write, on behalf of others: of whoever lists resources,
// saves them, or asks where memory went. A resource that throws, answers twice or never answers
// spoils its own entry, not the answer.
//
// Thread rule: that of the resource.
#ifndef TROUPE_KERNELS_DEVICE_RESOURCE_CALLS_H_
#define TROUPE_KERNELS_DEVICE_RESOURCE_CALLS_H_

#include <functional>
#include <string>

#include "troupe/resource.h"

namespace troupe {

// Its DebugString, or a line that says what that threw.
std::string DescriptionOf(const Resource& resource);
// Its tensors; of a resource that throws, those that it had shown. What `visit` throws is dropped,
// too.
void VisitTensorsOf(const Resource& resource, const std::function<void(const Tensor&)>& visit) noexcept;
// Calls `answer` once: with the first answer of Resource::Save; INTERNAL, or RESOURCE_EXHAUSTED,
// when it throws before that, or lets go of its visitor without a call. What `answer` throws is
// dropped.
void SaveResource(const Resource& resource, const Resource::StateVisitor& answer) noexcept;

}  // namespace troupe

#endif  // TROUPE_KERNELS_DEVICE_RESOURCE_CALLS_H_
