// Any bytes as a message that a port can reach (actors/wire, net): it must be refused, or be a
// value that becomes the same bytes again. The first byte says which message. A piece of a big
// tensor is freight_fuzz.cc's.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "actors/wire/freight_messages.h"
#include "actors/wire/session_messages.h"
#include "net/client_messages.h"
#include "net/messages.h"
#include "tests/fuzz/messages_system.h"

namespace troupe::fuzz {
namespace {

template <class T>
std::vector<char> Write(T& message) {
  std::vector<char> bytes;
  caf::binary_serializer out(System(), bytes);
  if (out(message)) std::abort();  // what was read can be written
  return bytes;
}

// Of another protocol only its number is read, since the rest may have another form.
template <class T>
bool IsWhole(const T& message) {
  if constexpr (requires { message.protocol; }) {
    return message.protocol == kNetProtocol;
  } else {
    return true;
  }
}

template <class T>
void Read(const std::vector<char>& bytes) {
  T message;
  caf::binary_deserializer in(System(), bytes);
  if (in(message) || !IsWhole(message)) return;
  const std::vector<char> once = Write(message);
  T again;
  caf::binary_deserializer in_again(System(), once);
  if (in_again(again) || in_again.remaining() != 0) std::abort();
  if (Write(again) != once) std::abort();
}

template <class... T>
void ReadAs(size_t which, const std::vector<char>& bytes) {
  using Reader = void (*)(const std::vector<char>&);
  constexpr Reader kReaders[] = {&Read<T>...};
  kReaders[which % sizeof...(T)](bytes);
}

}  // namespace
}  // namespace troupe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace troupe;
  if (size == 0) return 0;
  fuzz::ReadAs<Tensor, run_step, argument, tensor_to_part, grant, abort_step, result, part_done, part_failed, question,
               stall_report, run_request, run_reply, device_stats, resource_list, reset_resources, resources_reset,
               list_devices, device_list, register_graph, graph_registered, extend_request, extend_reply,
               compile_request, compile_reply, withdraw_compile, close_request, close_reply, set_memory_limit,
               memory_limit_set, memory_trimmed, snapshot_resources, resource_snapshot, restore_resources,
               resources_restored, actor_failed, failure_noted, withdraw_graph, link_graph, drop_graph, run_parts,
               parts_done, settle_step, part_letter, step_letter, to_container, freight_note, freight_go, freight_taken,
               freight_returned, freight_drop, freight_gone, open_session, session_opened, extend_session,
               prepare_session, run_session, begin_partial, go_on_partial, give_up_partial, reset_session, ask_session,
               cancel_call, close_session, client_beat, beat_noted, call_answer, parcel_piece, piece_taken,
               session_over, hello, welcome, beat, who_are_you, goodbye, goodbye_noted, worker_here, look_around>(
      data[0], std::vector<char>(data + 1, data + size));
  return 0;
}
