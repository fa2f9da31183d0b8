// Connections between the processes of a cluster that are encrypted, and on which both sides prove
// who they are: TLS 1.3 with certificates.
//
// Whoever has a certificate of a CA that the others trust may do all that a process of the cluster
// may: certificates have no roles, and names in them are not compared with addresses. So a cluster
// has a CA of its own, or its certificates have a name that no others of that CA have
// (TlsOptions.peer_name).
//
// The files are read again when they have changed, at most once a second. What cannot be read then,
// or does not fit, is logged, and what was read last is used on. Connections that are up stay up.
//
// Thread rule: all functions are thread safe; TlsOptions is a plain value.
#ifndef TROUPE_TLS_H_
#define TROUPE_TLS_H_

#include <string>

#include "troupe/export.h"
#include "troupe/status.h"

namespace TROUPE_EXPORT troupe {

// Files in PEM form. Without any of them: those that the environment names, TROUPE_TLS_CERTIFICATE,
// TROUPE_TLS_KEY, TROUPE_TLS_CA_FILE, TROUPE_TLS_CA_FOLDER, TROUPE_TLS_PASSPHRASE_FILE and
// TROUPE_TLS_PEER_NAME, and TROUPE_TLS_PASSPHRASE, the passphrase itself; and if it names none,
// connections without TLS.
struct TlsOptions {
  std::string certificate;  // of this process, followed by those of CAs between it and a trusted one
  std::string key;          // of the certificate
  // Whom to trust: a file with certificates of CAs, a folder of such files (*.pem, *.crt), or both.
  std::string ca_file, ca_folder;
  std::string passphrase_file;  // of the key: the first line
  // The certificates of all others must have this name (subjectAltName DNS).
  std::string peer_name;
  bool use_environment = true;
};

// For all clients of this process from now on: sessions in servers (SessionOptions.target) and
// AskServer. Before, and with options that name nothing, the environment decides.
// INVALID_ARGUMENT or NOT_FOUND name the file that is missing, expired, not readable, or does not
// fit the others. UNIMPLEMENTED in a Troupe that was built without OpenSSL.
absl::Status UseTls(const TlsOptions& options);

// Makes a CA and one certificate in `folder`, made if missing: ca.crt, node.crt, node.key, which
// only their owner may read; for processes on one machine, for ten years; the CA's key is not kept.
// FAILED_PRECONDITION: `folder` is a symbolic link, or any user may write there. Else UNAVAILABLE.
absl::Status MakeClusterCertificate(const std::string& folder);

}  // namespace troupe

#endif  // TROUPE_TLS_H_
