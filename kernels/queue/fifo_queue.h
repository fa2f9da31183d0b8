// Elements in the order in which they came: FIFOQueue and PaddingFIFOQueue.
//
// Thread rule: as for QueueMachine.
#ifndef TROUPE_KERNELS_QUEUE_FIFO_QUEUE_H_
#define TROUPE_KERNELS_QUEUE_FIFO_QUEUE_H_

#include "kernels/queue/queue.h"

namespace troupe::queue {

class FifoMachine final : public QueueMachine {
 public:
  using QueueMachine::QueueMachine;

 protected:
  int64_t Count() const override { return static_cast<int64_t>(elements_.size()); }
  void Put(Element element) override { elements_.push_back(std::move(element)); }
  Element TakeNext() override {
    Element first = std::move(elements_.front());
    elements_.pop_front();
    return first;
  }
  void PutBack(Element element) override { elements_.push_front(std::move(element)); }
  void VisitElements(const std::function<void(const Element&)>& visit) const override {
    for (const Element& e : elements_) visit(e);
  }

 private:
  std::deque<Element> elements_;
};

inline std::shared_ptr<QueueMachine> MakeFifo(QueueSpec spec) { return std::make_shared<FifoMachine>(std::move(spec)); }

}  // namespace troupe::queue

#endif  // TROUPE_KERNELS_QUEUE_FIFO_QUEUE_H_
