// Gives a link whose handshake is over to CAF's network: as a scribe, which is what CAF calls a
// connection of its event loop.
//
// CAF's own scribe makes room for a message as soon as a header has announced it: a header that
// names 4 GB takes them. This one makes room as the bytes come, and refuses what no message of ours
// has. It lends CAF its buffers as the other does, and gives back those that one big message made.
//
// CAF's own says who it is as soon as it is connected, and closes the connection when the other
// side turns out to be a node that it is connected with already. Of several such at once, the other
// side may have chosen one for its answers that is closed already: they are lost (docs/choices.md).
// So the scribe of who has called says nothing before it has heard whom it has called, and nothing
// at all when the connection is not needed.
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

// Of a connection to a server, which speaks first; to be given to the broker, to connect.
caf::io::scribe_ptr ScribeOf(caf::actor_system& system, std::unique_ptr<Link> link);

// Lets in who has come to `port`, where `whom` is published: CAF greets it.
void Admit(caf::actor_system& system, std::unique_ptr<Link> link, uint16_t port, const caf::actor& whom);

}  // namespace troupe

#endif  // TROUPE_NET_LINK_SCRIBE_H_
