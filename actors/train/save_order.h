// The order in which saves are written: that in which they took their values.
//
// Thread rule: all methods are thread safe.
#ifndef TROUPE_ACTORS_TRAIN_SAVE_ORDER_H_
#define TROUPE_ACTORS_TRAIN_SAVE_ORDER_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace troupe::train {

// Each save that has taken its values draws a ticket; they are written in turn.
class SaveOrder {
 public:
  // Waits until few enough are unwritten that another may hold values in memory.
  void WaitForRoom() {
    std::unique_lock<std::mutex> lock(mu_);
    moved_on_.wait(lock, [this] { return drawn_ - written_ < kMostUnwritten; });
  }
  // A place in the order, given up when this is destroyed.
  class Ticket {
   public:
    explicit Ticket(std::shared_ptr<SaveOrder> order) : order_(std::move(order)) {
      std::lock_guard<std::mutex> lock(order_->mu_);
      number_ = order_->drawn_++;
    }
    ~Ticket() {
      WaitForTurn();
      std::lock_guard<std::mutex> lock(order_->mu_);
      ++order_->written_;
      order_->moved_on_.notify_all();
    }
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;
    void WaitForTurn() const {
      std::unique_lock<std::mutex> lock(order_->mu_);
      order_->moved_on_.wait(lock, [this] { return order_->written_ == number_; });
    }

   private:
    const std::shared_ptr<SaveOrder> order_;
    uint64_t number_ = 0;
  };

 private:
  static constexpr uint64_t kMostUnwritten = 8;
  std::mutex mu_;
  std::condition_variable moved_on_;
  uint64_t drawn_ = 0, written_ = 0;  // guarded by mu_
};

}  // namespace troupe::train

#endif  // TROUPE_ACTORS_TRAIN_SAVE_ORDER_H_
