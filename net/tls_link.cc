// Links with TLS, by OpenSSL, and the context that makes them.
//
// OpenSSL reads from the socket and writes into a buffer of the link's, which is sent in one piece:
// a record has 16 KiB, and would be a call of the system each. So writing never waits for reading
// within OpenSSL, nor the other way round; the link alone waits for the socket.
//
// No exception passes through OpenSSL: without memory for the buffer, writing fails, and the
// connection is over.
#ifdef TROUPE_TLS
#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "actors/threads/aside.h"
#include "graph/core/guarded.h"
#include "graph/core/log.h"
#include "net/tls_context.h"
#include "net/tls_files.h"

namespace troupe {
namespace {

class TlsLink : public Link {
 public:
  TlsLink(std::shared_ptr<Socket> socket, SslContext context, bool server, uint64_t most_records)
      : Link(std::move(socket)),
        context_(std::move(context)),
        server_(server),
        most_records_(most_records),
        ssl_(::SSL_new(context_.get())) {
    BIO* const bio = ssl_ == nullptr ? nullptr : ::BIO_new(Method());
    if (bio == nullptr) {
      ssl_ = nullptr;
      return;
    }
    ::BIO_set_data(bio, this);
    ::BIO_set_init(bio, 1);
    ::SSL_set_bio(ssl_.get(), bio, bio);
    if (server) {
      ::SSL_set_accept_state(ssl_.get());
    } else {
      ::SSL_set_connect_state(ssl_.get());
    }
  }
  bool made() const { return ssl_ != nullptr; }

  Result Handshake(absl::Status* why) override {
    ::ERR_clear_error();
    const int done = ::SSL_do_handshake(ssl_.get());
    const int error = done == 1 ? SSL_ERROR_NONE : ::SSL_get_error(ssl_.get(), done);
    if (done != 1 && (Strange() || error != SSL_ERROR_WANT_READ)) {
      *why = WhyNot();
      if (server_ && Strange()) (void)Owe(reinterpret_cast<const char*>(kNoTlsAlert), sizeof(kNoTlsAlert));
      (void)Flush();  // the alert that tells the other side
      return Result::kEnd;
    }
    if (Flush() == Result::kEnd) {
      *why = Unavailable("it closed the connection in the handshake of TLS");
      return Result::kEnd;
    }
    return done == 1 ? Result::kOk : Result::kAgain;
  }
  Result Read(char* to, size_t most, size_t* got) override {
    ::ERR_clear_error();
    const int done = ::SSL_read_ex(ssl_.get(), to, most, got);
    // An answer of the protocol's own, to a change of keys.
    if (Owes() && Flush() == Result::kEnd) return Result::kEnd;
    return done == 1 ? Result::kOk : AgainOrEnd(done);
  }
  Result Peek(absl::Status* why) override {
    char byte = 0;
    size_t got = 0;
    ::ERR_clear_error();
    const int done = ::SSL_peek_ex(ssl_.get(), &byte, 1, &got);
    // The end of a long handshake, for which the socket had no room.
    if (Owes() && Flush() == Result::kEnd) {
      *why = Unavailable("it closed the connection");
      return Result::kEnd;
    }
    if (done == 1) return Result::kOk;
    if (::SSL_get_error(ssl_.get(), done) == SSL_ERROR_WANT_READ) return Result::kAgain;
    *why = WhyNot();
    return Result::kEnd;
  }
  Result Write(const char* from, size_t size, size_t* taken) override {
    constexpr size_t kAtOnce = 256 << 10;
    constexpr size_t kRecord = 16 << 10;
    if (const Result r = Flush(); r != Result::kOk) return r;
    ::ERR_clear_error();
    if (records_ >= most_records_) {
      // Told in front of the bytes below.
      if (::SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return Result::kEnd;
      records_ = 0;
    }
    if (::SSL_write_ex(ssl_.get(), from, std::min(size, kAtOnce), taken) != 1) return Result::kEnd;
    records_ += (*taken + kRecord - 1) / kRecord;
    return Flush() == Result::kEnd ? Result::kEnd : Result::kOk;
  }
  bool Owes() const override { return sent_ != out_.size(); }
  Result Flush() override {
    while (Owes()) {
      const ssize_t n = ::send(descriptor(), out_.data() + sent_, out_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Result::kAgain;
      if (n <= 0) return Result::kEnd;
      sent_ += static_cast<size_t>(n);
    }
    out_.clear();
    sent_ = 0;
    return Result::kOk;
  }
  bool Holds() const override { return ::SSL_has_pending(ssl_.get()) == 1; }
  void Finish() override {
    ::ERR_clear_error();
    if (::SSL_is_init_finished(ssl_.get()) == 1) (void)::SSL_shutdown(ssl_.get());
    (void)Flush();
    ::shutdown(descriptor(), SHUT_WR);
    ::ERR_clear_error();
  }

 private:
  Result AgainOrEnd(int done) const {
    return ::SSL_get_error(ssl_.get(), done) == SSL_ERROR_WANT_READ ? Result::kAgain : Result::kEnd;
  }
  // The first byte is none of a handshake, nor of an alert instead of one.
  bool Strange() const { return first_ >= 0 && first_ != 0x16 && (server_ || first_ != 0x15); }

  absl::Status WhyNot() const {
    if (no_memory_) {
      ::ERR_clear_error();
      return ResourceExhausted("there is no memory for its handshake");
    }
    if (Strange()) {
      ::ERR_clear_error();
      return FailedPrecondition(server_ ? "it does not use TLS, which this server's connections are encrypted with"
                                        : "its connections are not encrypted, and this process uses TLS");
    }
    const long verdict = ::SSL_get_verify_result(ssl_.get());  // NOLINT(runtime/int): OpenSSL's
    const unsigned long error = ::ERR_peek_last_error();       // NOLINT(runtime/int): OpenSSL's
    const int reason = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
    if (verdict != X509_V_OK)
      return absl::PermissionDeniedError(StrCat("its certificate is not accepted: ", Cleared(verdict)));
    if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
      ::ERR_clear_error();
      return absl::PermissionDeniedError("it has no certificate");
    }
    // Alerts of the other side.
    if (reason >= SSL_AD_REASON_OFFSET)
      return absl::PermissionDeniedError(StrCat("it does not accept this process's certificate: ", SslReason()));
    if (error == 0) return Unavailable("it closed the connection in the handshake of TLS");
    return Unavailable("the handshake of TLS failed: ", SslReason());
  }
  static std::string Cleared(long verdict) {  // NOLINT(runtime/int): OpenSSL's
    ::ERR_clear_error();
    return ::X509_verify_cert_error_string(verdict);
  }

  bool Owe(const char* from, size_t size) noexcept {
    try {
      out_.insert(out_.end(), from, from + size);
    } catch (const std::bad_alloc&) {
      no_memory_ = true;
    }
    return !no_memory_;
  }
  int Receive(BIO* bio, char* to, int most) {
    ::BIO_clear_retry_flags(bio);
    const ssize_t n = ::recv(descriptor(), to, static_cast<size_t>(most), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) BIO_set_retry_read(bio);
    if (n > 0 && first_ < 0) first_ = static_cast<unsigned char>(*to);
    return static_cast<int>(n);
  }
  static const BIO_METHOD* Method() {
    static const BIO_METHOD* const method = [] {
      BIO_METHOD* const m = ::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "troupe");
      if (m == nullptr) return m;
      ::BIO_meth_set_read(m, [](BIO* bio, char* to, int most) {
        return static_cast<TlsLink*>(::BIO_get_data(bio))->Receive(bio, to, most);
      });
      ::BIO_meth_set_write(m, [](BIO* bio, const char* from, int size) {
        ::BIO_clear_retry_flags(bio);
        return static_cast<TlsLink*>(::BIO_get_data(bio))->Owe(from, static_cast<size_t>(size)) ? size : -1;
      });
      ::BIO_meth_set_ctrl(m, [](BIO*, int what, long, void*) -> long {  // NOLINT(runtime/int): OpenSSL's
        return what == BIO_CTRL_FLUSH ? 1 : 0;
      });
      return m;
    }();
    return method;
  }

  const SslContext context_;
  const bool server_;
  const uint64_t most_records_;  // of a key
  uint64_t records_ = 0;         // of the key that is used now
  bool no_memory_ = false;       // a record is missing in out_
  std::vector<char> out_;        // encrypted, from sent_ on not yet sent
  size_t sent_ = 0;
  int first_ = -1;  // the first byte that came
  std::unique_ptr<SSL, FreeBy<SSL_free>> ssl_;
};

// The files are read, and what is made of them, on a thread for it: a disk may be slow, and the
// port has one thread.
class OpenSslContext : public TlsContext, public std::enable_shared_from_this<OpenSslContext> {
 public:
  OpenSslContext(TlsOptions options, std::string passphrase, TlsFiles files, SslContext context, uint64_t most_records)
      : options_(std::move(options)),
        passphrase_(std::move(passphrase)),
        most_records_(most_records),
        files_(std::move(files)),
        context_(std::move(context)) {}

  absl::StatusOr<std::unique_ptr<Link>> Accept(std::shared_ptr<Socket> socket) override {
    return LinkOn(std::move(socket), true);
  }
  absl::StatusOr<std::unique_ptr<Link>> Connect(std::shared_ptr<Socket> socket) override {
    return LinkOn(std::move(socket), false);
  }

 private:
  using Clock = std::chrono::steady_clock;

  absl::StatusOr<std::unique_ptr<Link>> LinkOn(std::shared_ptr<Socket> socket, bool server) {
    auto link = std::make_unique<TlsLink>(std::move(socket), Current(), server, most_records_);
    if (!link->made()) return ResourceExhausted("OpenSSL: ", SslReason());
    return link;
  }
  SslContext Current() {
    constexpr std::chrono::seconds kRarest{1};
    // Who comes first after a change has the new files already, unless the disk is slow.
    constexpr std::chrono::milliseconds kPatience{100};
    std::unique_lock<std::mutex> lock(mu_);
    const auto now = Clock::now();
    if (now >= looked_ + kRarest && !reading_) {
      looked_ = now;
      const absl::Status begun = Guarded("reading the files of TLS again", [&] {
        reading_ = TryAside([me = shared_from_this()] { me->ReadAgain(); });
        return reading_ ? absl::OkStatus() : ResourceExhausted("the system has no thread left");
      });
      if (!begun.ok()) Complain(begun);
    } else if (now >= looked_ + kRarest) {
      Complain(Unavailable("they are still being read"));
    }
    read_.wait_until(lock, looked_ + kPatience, [&] { return !reading_; });
    return context_;
  }
  void ReadAgain() {
    absl::StatusOr<std::optional<Read>> read =
        Guarded("reading the files of TLS again", [&] { return ReadIfChanged(); });
    std::lock_guard<std::mutex> lock(mu_);
    reading_ = false;
    read_.notify_all();
    if (!read.ok()) return Complain(read.status());
    complaint_.clear();
    if (!*read) return;
    (void)Guarded("a note",
                  [&] { LogInfo("the files of TLS have changed: ", options_.certificate, " is used from now on"); });
    context_ = std::move((*read)->context);
    files_ = std::move((*read)->files);
  }
  struct Read {
    TlsFiles files;
    SslContext context;
  };
  // Nothing when they are as before.
  absl::StatusOr<std::optional<Read>> ReadIfChanged() const {
    TROUPE_ASSIGN_OR_RETURN(TlsFiles files, ReadTlsFiles(options_, passphrase_));
    if (files == files_) return std::optional<Read>();
    TROUPE_ASSIGN_OR_RETURN(SslContext context, MakeSslContext(options_, files));
    return std::optional<Read>(Read{std::move(files), std::move(context)});
  }
  // Once. Perhaps they are being replaced just now, one after the other.
  void Complain(const absl::Status& why) {
    (void)Guarded("a warning", [&] {
      std::string said = why.ToString();
      if (said != complaint_) LogWarning("the files of TLS before are used on: ", said);
      complaint_ = std::move(said);
    });
  }

  const TlsOptions options_;
  const std::string passphrase_;
  const uint64_t most_records_;
  TlsFiles files_;  // of who reads
  std::mutex mu_;   // guards:
  SslContext context_;
  Clock::time_point looked_ = Clock::now();
  bool reading_ = false;
  std::condition_variable read_;
  std::string complaint_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<TlsContext>> OpenTls(const TlsOptions& options, std::string passphrase,
                                                    uint64_t most_records) {
  // At the end of the process OpenSSL would be gone before static servers and sessions are.
  (void)::OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, nullptr);
  TROUPE_ASSIGN_OR_RETURN(TlsFiles files, ReadTlsFiles(options, passphrase));
  TROUPE_ASSIGN_OR_RETURN(SslContext context, MakeSslContext(options, files));
  return std::make_shared<OpenSslContext>(options, std::move(passphrase), std::move(files), std::move(context),
                                          most_records);
}

}  // namespace troupe
#endif  // TROUPE_TLS
