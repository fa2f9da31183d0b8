#include "kernels/state/variable_slot.h"

#include <algorithm>
#include <condition_variable>
#include <thread>

#include "troupe/kernel.h"
#include "troupe/resource_state.h"

namespace troupe {
namespace {

constexpr char kKind[] = "variable";
constexpr SlotHolder kNoStep;

absl::StatusOr<std::shared_ptr<Resource>> MakeSlot(const std::string& name, const ResourceState& state) {
  TROUPE_ASSIGN_OR_RETURN(const Tensor number, state.Get("dtype", DType::kInt32, TensorShape()));
  const int32_t n = number.scalar<int32_t>();
  if (!IsValidDType(n) || IsRef(static_cast<DType>(n)))
    return InvalidArgument("the state of a variable has the unknown dtype ", n);
  const auto dtype = static_cast<DType>(n);
  PartialTensorShape shape;
  if (const Tensor* dims = state.Find("shape"); dims != nullptr && dims->valid()) {
    if (dims->dtype() != DType::kInt64 || dims->rank() != 1)
      return InvalidArgument("'shape' in the state of a variable is ", dims->TypeAndShape());
    TROUPE_ASSIGN_OR_RETURN(shape, PartialTensorShape::Make(dims->flat<int64_t>()));
  }
  auto slot = std::make_shared<VariableSlot>(name, dtype, std::move(shape));
  if (const Tensor* value = state.Find("value"); value != nullptr && value->valid()) {
    // Nobody else has the slot, so this waits for nobody. As when it was saved, an assignment
    // without validation may have given it a value of another shape.
    TROUPE_RETURN_IF_ERROR(slot->Assign(*value, /*validate_shape=*/false));
  }
  return slot;
}
const ResourceKind kind(kKind, MakeSlot);

}  // namespace

void VariableSlot::VisitTensors(const std::function<void(const Tensor&)>& visit) const {
  absl::StatusOr<Tensor> value = absl::UnknownError("");
  if (TryRead(&value) && value.ok()) visit(*value);
}

void VariableSlot::Save(const StateVisitor& visit) const {
  const auto tell = [this](const StateVisitor& to, absl::StatusOr<Tensor> value) {
    if (!value.ok() && !absl::IsFailedPrecondition(value.status())) return to(value.status());
    ResourceState state{kKind, {{"dtype", Tensor::Scalar(static_cast<int32_t>(dtype_))}}};
    const PartialTensorShape shape = this->shape();
    if (shape.known_rank()) {
      std::vector<int64_t> dims;
      for (int d = 0; d < shape.rank(); ++d) dims.push_back(shape.dim(d));
      state.tensors.emplace_back("shape", Tensor::Vector<int64_t>(dims));
    }
    if (value.ok()) state.tensors.emplace_back("value", *std::move(value));
    to(std::move(state));
  };
  absl::StatusOr<Tensor> value = absl::UnknownError("");
  if (TryRead(&value)) return tell(visit, std::move(value));
  const std::shared_ptr<SlotTicket> ticket = SlotTicket::ForRead(const_cast<VariableSlot*>(this));
  ticket->WhenAdmitted([tell, visit, ticket] { tell(visit, ticket->TakeSnapshot()); });
}

absl::Status VariableSlot::TakePlaceOf(const Resource& other) {
  const auto* before = dynamic_cast<const VariableSlot*>(&other);
  if (before == nullptr) return Resource::TakePlaceOf(other);
  return Join(before->dtype_, before->shape());
}

uint32_t VariableSlot::Spin() const noexcept {
  for (int tries = 0;; ++tries) {
    uint32_t state = state_.load(std::memory_order_relaxed);
    if (!(state & kLocked) &&
        state_.compare_exchange_weak(state, state | kLocked, std::memory_order_acquire, std::memory_order_relaxed)) {
      return state;
    }
    // Whoever holds it has lost its processor.
    if (tries > 64) std::this_thread::yield();
  }
}

absl::Status VariableSlot::Join(DType dtype, const PartialTensorShape& shape) {
  if (dtype != dtype_) return InvalidArgument("variable '", name_, "' holds ", Name(dtype_), ", not ", Name(dtype));
  const Lock lock(this);
  if (shape == shape_) return absl::OkStatus();
  absl::StatusOr<PartialTensorShape> both = shape_.MergeWith(shape);
  if (!both.ok()) {
    return InvalidArgument("variable '", name_, "' has shape ", shape_.DebugString(), ", not ", shape.DebugString());
  }
  if (*both == shape_) return absl::OkStatus();
  if (lock.state == 0 && value_.valid() && !both->IsCompatibleWith(value_.shape())) {
    return InvalidArgument("variable '", name_, "' has a value of shape ", value_.shape().DebugString(),
                           ", which does not fit shape ", shape.DebugString());
  }
  shape_ = *std::move(both);
  return absl::OkStatus();
}

absl::Status VariableSlot::CheckReadable() const {
  if (lost_) {
    return DataLoss("variable '", name_, "' lost its value in an update that did not finish; assign it again");
  }
  if (!value_.valid()) return FailedPrecondition("attempting to use uninitialized value of variable '", name_, "'");
  return absl::OkStatus();
}

std::shared_ptr<VariableSlot::Change> VariableSlot::Note() {
  if (changes_.size() >= look_through_) {
    changes_.erase(std::remove_if(changes_.begin(), changes_.end(), [](const auto& c) { return c.expired(); }),
                   changes_.end());
    look_through_ = 2 * changes_.size() + 16;
  }
  auto change = std::make_shared<Change>();
  change->before_ = value_;
  change->version_ = version();
  change->from_ = change->to_ = state_number_;
  change->lost_ = lost_;
  changes_.push_back(change);
  return change;
}

void VariableSlot::TakeBack(Change* change) {
  const uint64_t to = std::exchange(change->to_, change->from_);
  if (to == change->from_) return;
  if (state_number_ == to) {
    value_ = std::move(change->before_);
    lost_ = change->lost_;
    state_number_ = change->from_;
    initialized_.store(value_.valid() && !lost_, std::memory_order_release);
    version_.store(change->version_, std::memory_order_release);
    return;
  }
  for (const std::weak_ptr<Change>& c : changes_) {
    const std::shared_ptr<Change> next = c.lock();
    if (next == nullptr || next->from_ != to || next->to_ == to) continue;
    next->before_ = std::move(change->before_);
    next->version_ = change->version_;
    next->from_ = change->from_;
    next->lost_ = change->lost_;
    return;
  }
}

absl::Status VariableSlot::MakeUnique() {
  if (value_.BufferUnique()) return absl::OkStatus();
  Tensor copy = value_.Clone();
  if (!copy.valid()) return NoMemoryForCopy();
  value_ = std::move(copy);
  return absl::OkStatus();
}

absl::StatusOr<Tensor> VariableSlot::Another() const {
  Buffer* const bytes = value_.buffer()->Another(value_.bytes(), BufferKind::kPlain);
  if (bytes == nullptr) return NoMemoryForCopy();
  return Tensor(value_.dtype(), value_.shape(), bytes);
}

absl::Status VariableSlot::NoMemoryForCopy() const {
  return ResourceExhausted("no memory for a copy of variable '", name_, "'");
}

void VariableSlot::Append(Place* place, std::shared_ptr<SlotTicket> ticket) noexcept {
  place->ticket = std::move(ticket);
  place->before = last_;
  place->after = nullptr;
  (last_ != nullptr ? last_->after : first_) = place;
  last_ = place;
}

std::shared_ptr<SlotTicket> VariableSlot::Unlink(Place* place) noexcept {
  (place->before != nullptr ? place->before->after : first_) = place->after;
  (place->after != nullptr ? place->after->before : last_) = place->before;
  return std::move(place->ticket);
}

// Fails if the slot was only locked, not taken, when TryBegin looked.
bool VariableSlot::TryBeginLocked() noexcept {
  Lock lock(this);
  if (lock.state != 0) return false;
  lock.state = kBusy;
  return true;
}

void VariableSlot::EndLocked() noexcept {
  std::shared_ptr<SlotTicket> admitted, *end = &admitted;
  {
    Lock lock(this);
    lock.state &= ~kBusy;
    while (first_ != nullptr && !(lock.state & kBusy)) {
      Place* const place = first_;
      std::shared_ptr<SlotTicket> ticket = Unlink(place);
      if (ticket->reads_) {
        try {
          ticket->snapshot_ = Snapshot();
        } catch (...) {
          ticket->snapshot_ = absl::Status(absl::StatusCode::kResourceExhausted, "");
        }
      } else {
        place->has = true;
        lock.state |= kBusy;
        SetHolder(&ticket->asker_);
      }
      if (ticket->missing_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        *end = std::move(ticket);
        end = &(*end)->next_;
      }
    }
    if (first_ == nullptr) lock.state &= ~kQueued;
  }
  SlotTicket::AdmitAll(std::move(admitted));
}

namespace {

// Blocks until the ticket is admitted.
void Wait(SlotTicket* ticket) {
  std::mutex mu;
  std::condition_variable come;
  bool admitted = false;
  try {
    ticket->WhenAdmitted([&] {
      std::lock_guard<std::mutex> lock(mu);
      admitted = true;
      come.notify_one();
    });
  } catch (...) {
    // Without memory for the function. The slot would stay the ticket's.
    ticket->GiveUp();
    throw;
  }
  std::unique_lock<std::mutex> lock(mu);
  come.wait(lock, [&] { return admitted; });
}

}  // namespace

void VariableSlot::BeginBlocking() {
  if (TryBegin()) return SetHolder(&kNoStep);
  VariableSlot* slot = this;
  const std::shared_ptr<SlotTicket> ticket = SlotTicket::ForUpdate(&slot, 1);
  Wait(ticket.get());
  ticket->Take(&kNoStep);
}

absl::StatusOr<Tensor> VariableSlot::Read() {
  absl::StatusOr<Tensor> value = absl::UnknownError("");
  if (TryRead(&value)) return value;
  const std::shared_ptr<SlotTicket> ticket = SlotTicket::ForRead(this);
  Wait(ticket.get());
  return ticket->TakeSnapshot();
}

absl::Status VariableSlot::Assign(Tensor value, bool validate_shape) {
  if (value.dtype() != dtype_) {
    return InvalidArgument("variable '", name_, "' holds ", Name(dtype_), ", not ", Name(value.dtype()));
  }
  BeginBlocking();
  absl::Status status;
  if (validate_shape && !Fits(value.shape())) {
    status = InvalidArgument("variable '", name_, "' has shape ", shape().DebugString(),
                             ", which does not fit a value of shape ", value.shape().DebugString());
  } else {
    value = Exchange(std::move(value));
  }
  End();
  return status;
}

absl::Status VariableSlot::UpdateBy(const std::function<absl::Status(Tensor&)>& f) {
  BeginBlocking();
  struct Ending {
    ~Ending() { slot->End(); }
    VariableSlot* slot;
  } ending{this};
  TROUPE_RETURN_IF_ERROR(CheckReadable());
  TROUPE_RETURN_IF_ERROR(MakeUnique());
  const uint64_t before = state_number_;
  BeginWriting();
  absl::Status status = f(value_);
  if (status.ok()) {
    Commit();
  } else {
    lost_ = false;
    state_number_ = before;
  }
  return status;
}

void VariableSlot::Clear() {
  BeginBlocking();
  const Tensor value = Forget();
  End();
}

std::shared_ptr<SlotTicket> SlotTicket::ForUpdate(VariableSlot* const* slots, int n, const SlotHolder& asker) {
  std::shared_ptr<SlotTicket> ticket(new SlotTicket);
  ticket->asker_ = asker;
  ticket->n_ = n;
  std::copy(slots, slots + n, ticket->slots_);
  std::sort(ticket->slots_, ticket->slots_ + n, std::less<VariableSlot*>());
  // All locks are held at once, and taken in the order of the slots' addresses.
  uint32_t states[kMaxSlots];
  int missing = 0;
  for (int i = 0; i < n; ++i) {
    uint32_t free = 0;
    if (!ticket->slots_[i]->state_.compare_exchange_strong(free, VariableSlot::kLocked, std::memory_order_acquire,
                                                           std::memory_order_relaxed)) {
      free = ticket->slots_[i]->Spin();
    }
    states[i] = free;
    missing += free != 0;
  }
  ticket->missing_.store(missing, std::memory_order_relaxed);
  for (int i = 0; i < n; ++i) {
    VariableSlot* const slot = ticket->slots_[i];
    if (states[i] == 0) {
      ticket->places_[i].has = true;
      states[i] = VariableSlot::kBusy;
      slot->SetHolder(&ticket->asker_);
    } else {
      slot->Append(&ticket->places_[i], ticket);
      states[i] |= VariableSlot::kQueued;
    }
  }
  for (int i = 0; i < n; ++i) ticket->slots_[i]->state_.store(states[i], std::memory_order_release);
  return ticket;
}

std::shared_ptr<SlotTicket> SlotTicket::ForRead(VariableSlot* slot) {
  std::shared_ptr<SlotTicket> ticket(new SlotTicket);
  ticket->n_ = 1;
  ticket->reads_ = true;
  ticket->slots_[0] = slot;
  VariableSlot::Lock lock(slot);
  if (lock.state == 0) {
    ticket->snapshot_ = slot->Snapshot();
    return ticket;
  }
  ticket->missing_.store(1, std::memory_order_relaxed);
  slot->Append(&ticket->places_[0], ticket);
  lock.state |= VariableSlot::kQueued;
  return ticket;
}

void SlotTicket::WhenAdmitted(std::function<void()> f) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!told_ && !admitted()) {
      call_ = std::move(f);
      return;
    }
    told_ = true;
  }
  f();
}

void SlotTicket::Admitted() {
  std::function<void()> call;
  {
    std::lock_guard<std::mutex> lock(mu_);
    told_ = true;
    call.swap(call_);
  }
  if (call) call();
}

void SlotTicket::AdmitAll(std::shared_ptr<SlotTicket> first) {
  while (first != nullptr) {
    first->Admitted();
    first = std::exchange(first->next_, nullptr);
  }
}

void SlotTicket::Take(const SlotHolder* holder) {
  for (int i = 0; i < n_; ++i) {
    // Whoever looks at the holder has the lock, and the ticket goes next.
    const VariableSlot::Lock lock(slots_[i]);
    places_[i].has = false;
    slots_[i]->SetHolder(holder);
  }
}

void SlotTicket::GiveUp() {
  const std::shared_ptr<SlotTicket> keep = shared_from_this();
  std::function<void()> call;
  {
    std::lock_guard<std::mutex> lock(mu_);
    told_ = true;
    call.swap(call_);
  }
  for (int i = 0; i < n_; ++i) {
    std::shared_ptr<SlotTicket> unlinked;
    bool has = false;
    {
      VariableSlot::Lock lock(slots_[i]);
      if (places_[i].ticket != nullptr) {
        unlinked = slots_[i]->Unlink(&places_[i]);
        if (slots_[i]->first_ == nullptr) lock.state &= ~VariableSlot::kQueued;
      }
      has = std::exchange(places_[i].has, false);
    }
    if (has) slots_[i]->End();
  }
}

std::string SlotTicket::What() const {
  std::string text(n_ == 1 ? "variable" : "variables");
  for (int i = 0; i < n_; ++i)
    StrAppend(&text, i == 0 ? " '" : ", '", slots_[i]->name(), "'", slots_[i]->HeldBy(&places_[i]));
  return text;
}

std::string VariableSlot::HeldBy(const Place* asks) const {
  const Lock lock(this);
  const SlotHolder* const holder = holder_.load(std::memory_order_acquire);
  if (asks->has || !(lock.state & kBusy) || holder == nullptr) return "";
  if (holder->node == nullptr) return ", held outside of steps";
  return StrCat(", held by node '", holder->node->name, "' (", holder->node->op, ") of step ", holder->step_id);
}

VariableSlot* KernelContext::ref(int i) const {
  return static_cast<const ResourceHandle*>(inputs_[i].raw())->As<VariableSlot>();
}

}  // namespace troupe
