#include "actors/executor/mailroom.h"

namespace troupe {

absl::Status Mailroom::CheckRoom(uint32_t edge) const {
  if (mail_.size() + grants_.size() + num_early_ < most_) [[likely]]
    return absl::OkStatus();
  const std::string& name = edges_[edge].name;
  return ResourceExhausted("more than ", most_, " messages wait for a part of the step; the next is of tensor '",
                           EdgeTensor(name), "' of ", EdgeSender(name));
}

std::optional<Mailroom::Mail> Mailroom::Take(const Place& place) {
  if (mail_.empty()) return std::nullopt;
  const auto it = mail_.find(place);
  if (it == mail_.end()) return std::nullopt;
  std::optional<Mail> mail = std::move(it->second);
  mail_.erase(it);
  return mail;
}

absl::Status Mailroom::Ask(const Place& place, Waiter&& waiter) {
  if (!waiters_.asked.try_emplace(place, std::move(waiter)).second)
    return InvalidArgument("another node of the part receives '", edges_[place.edge].name, "'");
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Mailroom::Waiter>> Mailroom::Came(const Place& place, Mail* mail) {
  if (const auto it = waiters_.asked.find(place); it != waiters_.asked.end()) {
    std::optional<Waiter> waiter = std::move(it->second);
    waiters_.asked.erase(it);
    return waiter;
  }
  TROUPE_RETURN_IF_ERROR(CheckRoom(place.edge));
  if (!mail_.try_emplace(place, std::move(*mail)).second)
    return InvalidArgument("another tensor has come for '", edges_[place.edge].name, "'");
  return std::optional<Waiter>();
}

absl::Status Mailroom::Hold(const Place& place, Tensor value, int64_t since) {
  if (!held_.try_emplace(place, Held{std::move(value), since}).second)
    return InvalidArgument("another node of the part sends '", edges_[place.edge].name, "'");
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Tensor>> Mailroom::Granted(const Place& place) {
  if (const auto held = held_.extract(place)) return std::optional<Tensor>(std::move(held.mapped().value));
  TROUPE_RETURN_IF_ERROR(CheckRoom(place.edge));
  grants_.insert(place);
  return std::optional<Tensor>();
}

absl::Status Mailroom::KeepEarly(std::unique_ptr<Arrival> arrival) {
  if (const auto* t = std::get_if<tensor_to_part>(&arrival->message)) TROUPE_RETURN_IF_ERROR(CheckRoom(t->edge));
  if (const auto* g = std::get_if<grant>(&arrival->message)) TROUPE_RETURN_IF_ERROR(CheckRoom(g->edge));
  early_.Push(arrival.release());
  ++num_early_;
  return absl::OkStatus();
}

void Mailroom::TakeEarly(ArrivalList* list) noexcept {
  list->Swap(early_);
  num_early_ = 0;
}

void Mailroom::Clear() {
  if (!mail_.empty()) mail_.clear();
  if (!waiters_.asked.empty()) waiters_.asked.clear();
  if (!waiters_.in_vain.empty()) waiters_.in_vain.clear();
  if (!held_.empty()) held_.clear();
  if (!grants_.empty()) grants_.clear();
}

}  // namespace troupe
