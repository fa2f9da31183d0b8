// A message of Protocol Buffers and all that is in it, in one arena.
//
// Problem: a GraphDef of a thousand nodes is tens of thousands of little objects. To allocate and
// to free each takes as long as to compile the graph.
//
// Contract: the message lives as long as this. A share of it (Share) keeps it alive, too.
//
// Thread rule: that of the message.
#ifndef TROUPE_GRAPH_IR_ON_ARENA_H_
#define TROUPE_GRAPH_IR_ON_ARENA_H_

#include <google/protobuf/arena.h>

#include <memory>

namespace troupe {

template <class Message>
class OnArena {
 public:
  OnArena() : arena_(Options()), message_(google::protobuf::Arena::CreateMessage<Message>(&arena_)) {}
  OnArena(const OnArena&) = delete;
  OnArena& operator=(const OnArena&) = delete;
  Message& operator*() { return *message_; }
  const Message& operator*() const { return *message_; }
  Message* operator->() { return message_; }
  const Message* operator->() const { return message_; }
  Message* get() { return message_; }

  // A new message in an arena of its own, which goes with the last share.
  static std::shared_ptr<Message> Share() {
    auto all = std::make_shared<OnArena>();
    return {all, all->message_};
  }

 private:
  static google::protobuf::ArenaOptions Options() {
    google::protobuf::ArenaOptions options;
    options.max_block_size = size_t{1} << 18;  // blocks double up to this
    return options;
  }

  google::protobuf::Arena arena_;
  Message* const message_;
};

}  // namespace troupe

#endif  // TROUPE_GRAPH_IR_ON_ARENA_H_
