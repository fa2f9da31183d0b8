// What comes for a step before the step: kept until it begins, bounded.
#include <algorithm>
#include <string>
#include <utility>

#include "actors/signature/signature.h"
#include "actors/step/remote_steps.h"

namespace troupe {

int64_t BytesOf(const part_letter& letter) {
  if (const auto* m = std::get_if<abort_step>(&letter.message)) return static_cast<int64_t>(m->status.message().size());
  const Tensor* value = nullptr;
  if (const auto* m = std::get_if<tensor_to_part>(&letter.message)) value = &m->value;
  if (const auto* m = std::get_if<argument>(&letter.message)) value = &m->value;
  if (value == nullptr || !value->valid()) return 0;
  auto bytes = static_cast<int64_t>(value->bytes());
  if (value->dtype() == DType::kString) {
    const auto* s = static_cast<const std::string*>(value->raw());
    for (int64_t i = 0; i < value->num_elements(); ++i) bytes += static_cast<int64_t>(s[i].size());
  }
  return bytes;
}

void RemoteSteps::Lose(Early* early, const absl::Status& why) {
  early_messages_ -= early->letters.size() + std::exchange(early->notes, 0);
  early_bytes_ -= std::exchange(early->bytes, 0);
  early->letters.clear();
  early->lost = why;
}

absl::Status RemoteSteps::TooMuch(const part_letter& letter) const {
  const auto master = masters_.find(letter.master);
  std::string what = "an abort";
  uint32_t edge = 0;
  if (const auto* t = std::get_if<tensor_to_part>(&letter.message)) edge = t->edge;
  if (const auto* g = std::get_if<grant>(&letter.message)) edge = g->edge;
  // The edges of one graph tell more than a number.
  for (const auto& [name, graph] : master->second.graphs) {
    if (graph->signature == nullptr || !graph->signature->edges.Has(edge)) continue;
    const std::string& key_name = graph->signature->edges[edge].name;
    what = StrCat("tensor '", EdgeTensor(key_name), "' of ", EdgeSender(key_name));
    if (graph->number == letter.to.task) break;
  }
  return ResourceExhausted("more messages than ", limits_.messages, ", or more bytes than ", limits_.bytes,
                           ", wait for steps that have not begun in this process; one is of ", what);
}

RemoteSteps::Early* RemoteSteps::FindEarly(const Key& key) {
  const auto [it, is_new] = early_.try_emplace(key);
  if (!is_new) return &it->second;
  early_in_order_.push_back(key);
  // A step that begins without what it was sent would wait for it: so one that loses that is known
  // for as long again.
  const size_t n = early_in_order_.size(), most = std::max<size_t>(limits_.steps, 1);
  if (n > most) {
    const Key& old = early_in_order_[n - 1 - most];
    Early& e = early_.at(old);
    freight_->in.End(old);
    if (e.lost.ok()) Lose(&e, TooManySteps());
  }
  if (n > 2 * most) DropEarly(Key(early_in_order_.front()));
  return &it->second;
}

absl::Status RemoteSteps::TooManySteps() const {
  return ResourceExhausted("messages have come for more than ", limits_.steps,
                           " steps that have not begun in this process");
}

bool RemoteSteps::MakeRoom(const Key& key, Early* early, const part_letter& letter, int64_t bytes) {
  if (!early->lost.ok()) return false;
  const auto full = [&] { return early_messages_ >= limits_.messages || early_bytes_ + bytes > limits_.bytes; };
  if (full() && bytes <= limits_.bytes) {
    // The oldest first: their steps are the least likely to begin still.
    for (const Key& old : early_in_order_) {
      if (old == key || !full()) break;
      Early& e = early_.at(old);
      if (e.letters.empty() && e.notes == 0) continue;
      freight_->in.End(old);
      Lose(&e, TooMuch(e.letters.empty() ? letter : e.letters.front()));
    }
  }
  if (!full()) return true;
  freight_->in.End(key);
  Lose(early, TooMuch(letter));
  return false;
}

void RemoteSteps::Keep(const Key& key, part_letter&& letter) {
  Early& early = *FindEarly(key);
  const int64_t bytes = BytesOf(letter);
  if (std::holds_alternative<abort_step>(letter.message)) {
    // Nobody will take the rest.
    freight_->in.End(key);
    if (early.lost.ok()) Lose(&early, absl::OkStatus());
  }
  if (!MakeRoom(key, &early, letter, bytes)) return;
  early.letters.push_back(std::move(letter));
  early.bytes += bytes;
  early_bytes_ += bytes;
  ++early_messages_;
}

std::vector<part_letter> RemoteSteps::TakeEarly(std::map<Key, Early>::iterator it) {
  std::vector<part_letter> letters = std::move(it->second.letters);
  early_messages_ -= letters.size() + it->second.notes;
  early_bytes_ -= it->second.bytes;
  std::erase(early_in_order_, it->first);
  early_.erase(it);
  return letters;
}

void RemoteSteps::DropEarly(const Key& key) {
  const auto it = early_.find(key);
  if (it == early_.end()) return;
  TakeEarly(it);
  freight_->in.End(key);
}

}  // namespace troupe
