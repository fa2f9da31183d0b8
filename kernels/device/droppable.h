// A resource that is told when its entry leaves its container: cleared, replaced or deleted. Nobody
// else will find it, so whoever waits for it would wait for ever.
//
// Thread rule: Drop is called by any thread, without a lock, once for each time that the resource
// leaves a container.
#ifndef TROUPE_KERNELS_DEVICE_DROPPABLE_H_
#define TROUPE_KERNELS_DEVICE_DROPPABLE_H_

namespace troupe {

class Droppable {
 public:
  virtual void Drop() const noexcept = 0;

 protected:
  ~Droppable() = default;
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_DEVICE_DROPPABLE_H_
