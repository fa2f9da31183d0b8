#include "actors/trace/step_statistics.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "actors/executor/run_rows.h"
#include "actors/trace/run_causes.h"

namespace troupe {
namespace {

// What a run waited for that is a wait: the name of what its first input names, a queue or a
// variable.
std::string WaitedFor(const CompiledPart& part, const node_run& run) {
  if (run.thread != rows::kAsynchronous || part.nodes[run.node].num_inputs == 0) return "";
  const uint32_t slot = part.nodes[run.node].first_slot;
  return slot < part.producers.size() ? std::string(part.info[part.producers[slot].first].name) : "";
}

// The ends of edges, by key, in each process: when sending began, and when receiving ended.
struct Crossings {
  std::map<std::string_view, std::vector<int64_t>> sent, received;
};

Crossings CrossingsOf(const proto::RunMetadata& metadata) {
  Crossings found;
  const int devices = std::min(metadata.step_trace().devices_size(), metadata.step_stats().dev_stats_size());
  for (int d = 0; d < devices; ++d) {
    const auto& why = metadata.step_trace().devices(d).runs();
    const auto& runs = metadata.step_stats().dev_stats(d).node_stats();
    for (int i = 0; i < std::min(why.size(), runs.size()); ++i) {
      if (why[i].edge().empty()) continue;
      const int64_t start = runs[i].all_start_nanos(), end = start + runs[i].all_end_rel_nanos();
      const bool receives = runs[i].thread_id() == rows::kAsynchronous;
      (receives ? found.received : found.sent)[why[i].edge()].push_back(receives ? end : start);
    }
  }
  for (auto* ends : {&found.sent, &found.received}) {
    for (auto& [key, times] : *ends) std::sort(times.begin(), times.end());
  }
  return found;
}

// The least that a tensor took from one process to another, by their own clocks. Sends of which it
// is not known which receive was theirs say nothing.
bool Fastest(const Crossings& from, const Crossings& to, int64_t* least) {
  bool any = false;
  for (const auto& [key, sent] : from.sent) {
    const auto it = to.received.find(key);
    if (it == to.received.end() || it->second.size() != sent.size()) continue;
    for (size_t i = 0; i < sent.size(); ++i) {
      const int64_t took = it->second[i] - sent[i];
      *least = any ? std::min(*least, took) : took;
      any = true;
    }
  }
  return any;
}

// Bounds by the tensors of a step. Of two others, the one's bounds bound the other's.
void BoundByTensors(const proto::RunMetadata& own, std::vector<OtherStatistics>* others) {
  std::vector<Crossings> crossings{CrossingsOf(own)};
  for (const OtherStatistics& o : *others) crossings.push_back(CrossingsOf(o.metadata));
  constexpr int kRounds = 2;
  int64_t least = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (size_t a = 0; a < crossings.size(); ++a) {
      for (size_t b = 0; b < crossings.size(); ++b) {
        if (a == b || !Fastest(crossings[a], crossings[b], &least)) continue;
        // offset(b) - offset(a) <= least, where this process has the offset 0.
        ClockBounds* const of_a = a == 0 ? nullptr : &(*others)[a - 1].clock;
        ClockBounds* const of_b = b == 0 ? nullptr : &(*others)[b - 1].clock;
        if (of_b != nullptr) of_b->LimitHigh((of_a != nullptr ? of_a->high() : 0) + least);
        if (of_a != nullptr) of_a->LimitLow((of_b != nullptr ? of_b->low() : 0) - least);
      }
    }
  }
}

void Shift(int64_t offset, proto::RunMetadata* metadata) {
  for (proto::DeviceStepStats& d : *metadata->mutable_step_stats()->mutable_dev_stats()) {
    for (proto::NodeExecStats& n : *d.mutable_node_stats()) {
      n.set_all_start_nanos(n.all_start_nanos() - offset);
      n.set_all_start_micros(n.all_start_nanos() / 1000);
      n.set_scheduled_nanos(n.scheduled_nanos() - offset);
      n.set_scheduled_micros(n.scheduled_nanos() / 1000);
    }
  }
}

}  // namespace

void AddPartStatistics(const CompiledPart& part, const std::vector<node_run>& runs, int64_t begin,
                       proto::RunMetadata* metadata) {
  std::map<uint32_t, const std::string*> edges;  // by node
  for (const auto* ends : {&part.sends, &part.recvs}) {
    for (const auto& [key, node] : *ends) edges[node] = &key;
  }
  const std::vector<RunCause> causes = CausesOf(part, runs, begin);
  proto::DeviceStepStats* const device = metadata->mutable_step_stats()->add_dev_stats();
  device->set_device(part.device->name());
  proto::StepTrace::Device* const why = metadata->mutable_step_trace()->add_devices();
  why->set_device(part.device->name());
  for (size_t i = 0; i < runs.size(); ++i) {
    const node_run& t = runs[i];
    const int64_t nanos = t.end_nanos - t.start_nanos;
    proto::NodeExecStats* const n = device->add_node_stats();
    n->set_node_name(std::string(part.info[t.node].name));
    n->set_timeline_label(StrCat(part.info[t.node].name, " = ", part.info[t.node].op));
    n->set_all_start_micros(t.start_nanos / 1000);
    n->set_op_start_rel_micros(0);
    n->set_op_end_rel_micros(nanos / 1000);
    n->set_all_end_rel_micros(nanos / 1000);
    n->set_all_start_nanos(t.start_nanos);
    n->set_all_end_rel_nanos(nanos);
    n->set_scheduled_micros(causes[i].ready_nanos / 1000);
    n->set_scheduled_nanos(causes[i].ready_nanos);
    n->set_thread_id(t.thread);
    device->mutable_thread_names()->try_emplace(t.thread, rows::Name(t.thread));
    proto::StepTrace::Run* const run = why->add_runs();
    run->set_after(causes[i].after + 1);
    const auto edge = edges.find(t.node);
    if (edge != edges.end()) {
      run->set_edge(*edge->second);
    } else {
      run->set_waits_for(WaitedFor(part, t));
    }
  }
}

bool ReadStatistics(const std::string& bytes, proto::RunMetadata* metadata) {
  if (!metadata->ParseFromString(bytes)) return false;
  // Sums and differences of such times are numbers.
  const auto sane = [](int64_t nanos) { return nanos > -(int64_t{1} << 60) && nanos < (int64_t{1} << 60); };
  for (const proto::DeviceStepStats& d : metadata->step_stats().dev_stats()) {
    for (const proto::NodeExecStats& n : d.node_stats()) {
      if (!sane(n.all_start_nanos()) || !sane(n.all_end_rel_nanos()) || !sane(n.scheduled_nanos())) return false;
    }
  }
  const proto::StepTrace::Process& own = metadata->step_trace().own();
  return sane(own.begin_nanos()) && sane(own.end_nanos());
}

void AddAligned(std::vector<OtherStatistics> others, proto::RunMetadata* metadata) {
  BoundByTensors(*metadata, &others);
  for (OtherStatistics& o : others) {
    // Without an answer there is nothing to align by.
    const int64_t offset = o.clock.known() ? o.clock.offset() : 0;
    Shift(offset, &o.metadata);
    metadata->mutable_step_stats()->MergeFrom(o.metadata.step_stats());
    proto::StepTrace* const trace = metadata->mutable_step_trace();
    trace->mutable_devices()->MergeFrom(o.metadata.step_trace().devices());
    proto::StepTrace::Process* const p = trace->add_processes();
    p->set_task(o.task);
    p->set_begin_nanos(o.metadata.step_trace().own().begin_nanos() - offset);
    p->set_end_nanos(o.metadata.step_trace().own().end_nanos() - offset);
    p->set_offset_nanos(offset);
    p->set_uncertainty_nanos(o.clock.known() ? o.clock.uncertainty() : 0);
  }
}

}  // namespace troupe
