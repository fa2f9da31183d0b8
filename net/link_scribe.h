// Gives a link whose handshake is over to CAF's network: as a scribe, which is what CAF calls a
// connection of its event loop.
//
// CAF's own scribe makes room for a message as soon as a header has announced it: a header that
// names 4 GB takes them. This one makes room as the bytes come, and refuses what no message of ours
// has. It lends CAF its buffers as the other does, and gives back those that one big message made.
//
// Thread rule: Admit and Enter from any thread; everything else happens on CAF's network thread.
#ifndef TROUPE_NET_LINK_SCRIBE_H_
#define TROUPE_NET_LINK_SCRIBE_H_

#include <caf/actor.hpp>
#include <caf/io/scribe.hpp>
#include <memory>

#include "net/link.h"

namespace troupe {

// CAF's broker of connections, which all messages to other processes pass; null when the system has
// no middleman, or one without a network.
caf::actor BrokerOf(caf::actor_system& system);

// Of a connection that is to be given to the broker.
caf::io::scribe_ptr ScribeOf(caf::actor_system& system, std::unique_ptr<Link> link);

// Lets in who has come to `port`, where `whom` is published: CAF greets it.
void Admit(caf::actor_system& system, std::unique_ptr<Link> link, uint16_t port, const caf::actor& whom);

}  // namespace troupe

#endif  // TROUPE_NET_LINK_SCRIBE_H_
