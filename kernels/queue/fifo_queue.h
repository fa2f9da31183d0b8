// Elements in the order in which they came: FIFOQueue and PaddingFIFOQueue.
//
// Thread rule: as for QueueMachine.
#ifndef TROUPE_KERNELS_QUEUE_FIFO_QUEUE_H_
#define TROUPE_KERNELS_QUEUE_FIFO_QUEUE_H_

#include <iterator>

#include "kernels/queue/queue.h"

namespace troupe::queue {

class FifoMachine final : public QueueMachine {
 public:
  using QueueMachine::QueueMachine;

 protected:
  int64_t Count() const override { return static_cast<int64_t>(elements_.size()); }
  void Put(Element&& element) override { elements_.push_back(std::move(element)); }
  void Take(int64_t n, Elements* to) override {
    const auto end = elements_.begin() + n;
    to->insert(to->end(), std::make_move_iterator(elements_.begin()), std::make_move_iterator(end));
    elements_.erase(elements_.begin(), end);
  }
  void PutBack(Element&& element) override { elements_.push_front(std::move(element)); }
  void VisitElements(const std::function<void(const Element&)>& visit) const override {
    for (const Element& e : elements_) visit(e);
  }

 private:
  std::deque<Element> elements_;
};

inline std::shared_ptr<QueueMachine> MakeFifo(QueueSpec spec) { return std::make_shared<FifoMachine>(std::move(spec)); }

}  // namespace troupe::queue

#endif  // TROUPE_KERNELS_QUEUE_FIFO_QUEUE_H_
