// Reads a protobuf message from the bytes of an entry of a checkpoint's index.
//
// Thread rule: pure.
#ifndef TROUPE_GRAPH_CHECKPOINT_PARSE_MESSAGE_H_
#define TROUPE_GRAPH_CHECKPOINT_PARSE_MESSAGE_H_

#include <limits>
#include <string_view>

#include <google/protobuf/message.h>

namespace troupe {

// False for what is none, or has more bytes than protobuf can count.
inline bool ParseMessage(std::string_view bytes, google::protobuf::Message* to) {
  return bytes.size() <= static_cast<size_t>(std::numeric_limits<int>::max()) &&
         to->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

}  // namespace troupe

#endif  // TROUPE_GRAPH_CHECKPOINT_PARSE_MESSAGE_H_
